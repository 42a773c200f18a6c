"""HTTP to one of several equal servers: a deadline for each attempt, bounded retries, bounded concurrency and size.

What may pass by itself (no connection, no answer in time, an error of the server, an answer that makes no sense)
is tried again, elsewhere if there is an elsewhere; when all attempts are used up the run cannot go on, so that is
an EngineError. What a server refuses (a 4xx) is about this one request, so that is a TeacherError at once.

A server is not trusted: its answer has a largest size, which depends on what was asked and also holds for what a
compressed one unpacks to, redirects are not followed, and nothing that it says is shown with our key in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

import httpx2

from actfirst.config.engine_sections import ServerSection
from actfirst.engines.remote.replicas import Replica, Replicas
from actfirst.engines.remote.wire import Json, Malformed
from actfirst.errors import ConfigError, EngineError, TeacherError
from actfirst.reading import Unreadable, parse_object, unpacked_gzip

_PASSES = {408, 425, 429}  # the only refusals that waiting can fix
_FIRST_PAUSE = 0.25  # seconds before the second attempt; doubles with each further one
_LONGEST_PAUSE = 8.0
_SHOWN = 300  # characters of a server's own message
_LOOKED_AT = 4096  # bytes of it in which our key is looked for before it is shown
_MOST_BYTES = 64 * 2**20  # of any answer
_BASE_BYTES = 2**20  # an answer may have so many bytes, and in addition
_BYTES_PER_TOKEN = 2048  # so many for each token that was sent or asked for: one takes about 100
_GZIP = {"gzip", "x-gzip", "deflate"}

Answer = TypeVar("Answer")


class NotThere(TeacherError):
    """The server does not know this route."""


class _Transient(Exception):
    """A failure that another attempt may not meet."""


class Client:
    """Asks servers. Close it: it holds connections."""

    def __init__(self, server: ServerSection, max_concurrency: int) -> None:
        key = os.environ.get(server.key, "") if server.key else ""
        if server.key and not key:
            raise ConfigError(
                f"teacher.server.key names the environment variable {server.key}, which is not set: "
                f"export {server.key}=... before the run"
            )
        self.replicas = Replicas(server.urls)
        self._server = server
        self._key = key
        self._places = asyncio.Semaphore(max_concurrency)
        self._http = httpx2.AsyncClient(
            headers={"Accept-Encoding": "gzip", **({"Authorization": f"Bearer {key}"} if key else {})},
            timeout=None,  # the deadline covers everything
            follow_redirects=False,  # who answers is who was named, and nobody else is shown our key
            limits=httpx2.Limits(max_connections=max_concurrency),
            trust_env=False,  # a proxy of the environment is not for the servers of a run
        )

    async def ask(
        self, path: str, body: Json | None, read: Callable[[Json], Answer], only: Replica | None = None
    ) -> Answer:
        """Send `body` (None: a GET) and read the answer, from the least loaded server or from `only` one."""
        tried: list[Replica] = []
        last = ""
        async with self._places:
            for attempt in range(self._server.retries + 1):
                if attempt:
                    await asyncio.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (attempt - 1)))
                replica = only or self.replicas.choose(tried)
                tried.append(replica)
                try:
                    answer = await self._attempt(replica, path, body, read)
                except _Transient as error:
                    self.replicas.failed(replica)
                    last = f"{replica.url}: {error}"
                else:
                    self.replicas.succeeded(replica)
                    return answer
        urls = ", ".join(dict.fromkeys(replica.url for replica in tried))
        raise EngineError(
            f"no usable answer from the teacher's server ({urls}) in {len(tried)} attempts; the last one: {last}. "
            "See that it runs and can be reached, then continue with --resume"
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def _attempt(
        self, replica: Replica, path: str, body: Json | None, read: Callable[[Json], Answer]
    ) -> Answer:
        replica.running += 1
        try:
            async with asyncio.timeout(self._server.deadline):
                status, content = await self._exchange(replica.url + path, body)
        except TimeoutError:
            raise _Transient(f"no answer within {self._server.deadline:g} s") from None
        except httpx2.InvalidURL as error:
            raise TeacherError(f"{replica.url} is no address of a server: {error}") from error
        except httpx2.HTTPError as error:
            raise _Transient(f"{type(error).__name__}: {self._shown(str(error))}") from error
        finally:
            replica.running -= 1
        _refuse(replica, path, status, self._shown(content[:_LOOKED_AT].decode(errors="replace")))
        try:
            return read(parse_object(content))
        except (Malformed, Unreadable) as error:
            raise _Transient(f"answered {path} with something else: {self._shown(str(error))}") from error

    async def _exchange(self, url: str, body: Json | None) -> tuple[int, bytes]:
        method, most = "GET" if body is None else "POST", _room(body)
        async with self._http.stream(method, url, json=body) as response:
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > most:
                    raise _Transient(f"its answer exceeds {most} bytes")
            return response.status_code, _unpacked(
                bytes(content), response.headers.get("Content-Encoding", ""), most
            )

    def _shown(self, said: str) -> str:
        """The beginning of what a server said. It may have sent our key back."""
        return (said.replace(self._key, "<the key>") if self._key else said).strip()[:_SHOWN]


def _room(body: Json | None) -> int:
    """How large the answer to a request may be."""
    prompt, more = (body or {}).get("prompt", ()), (body or {}).get("max_tokens", 0)
    tokens = (len(prompt) if isinstance(prompt, list | str) else 0) + (more if isinstance(more, int) else 0)
    return min(_MOST_BYTES, _BASE_BYTES + _BYTES_PER_TOKEN * tokens)


def _unpacked(content: bytes, encoding: str, most: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return content
    if encoding not in _GZIP:
        raise _Transient(f"its answer is encoded as {encoding[:40]!r}, which was not asked for")
    try:
        return unpacked_gzip(content, most)
    except Unreadable as error:
        raise _Transient(f"its answer {error}") from error


def _refuse(replica: Replica, path: str, status: int, message: str) -> None:
    """Raise what a status other than success means."""
    if status < 300:
        return
    said = f"status {status}: {message or 'no message'}"
    if status < 400:
        raise _Transient(f"{said} (redirects are not followed: name the server itself in teacher.server.urls)")
    if status >= 500 or status in _PASSES:
        raise _Transient(said)
    if status in (404, 405):
        raise NotThere(f"{replica.url}{path} does not exist ({said}); is this an OpenAI-compatible server?")
    if status in (401, 403):
        raise EngineError(
            f"{replica.url} refuses us ({said}); name the variable of its key: teacher.server.key"
        )
    raise TeacherError(f"{replica.url} refused the request ({said})")
