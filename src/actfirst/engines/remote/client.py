"""HTTP to one of several equal servers: a deadline for each attempt, bounded retries, bounded concurrency and size.

What may pass by itself (no connection, no answer in time, an error of the server, an answer that makes no sense)
is tried again, elsewhere if there is an elsewhere; when all attempts are used up the run cannot go on, so that is
an EngineError. What a server refuses (a 4xx) is about this one request, so that is a TeacherError at once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import TypeVar

import httpx2

from actfirst.config.sections import ServerSection
from actfirst.engines.remote.replicas import Replica, Replicas
from actfirst.engines.remote.wire import Json, Malformed
from actfirst.errors import ConfigError, EngineError, TeacherError

_PASSES = {408, 425, 429}  # the only refusals that waiting can fix
_FIRST_PAUSE = 0.25  # seconds before the second attempt; doubles with each further one
_LONGEST_PAUSE = 8.0
_SHOWN = 300  # characters of a server's own message
_MOST_BYTES = 64 * 2**20  # of an answer: with the cap on requests this bounds the memory of all

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
        self._places = asyncio.Semaphore(max_concurrency)
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=None,  # the deadline covers everything
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
            raise _Transient(f"{type(error).__name__}: {error}") from error
        finally:
            replica.running -= 1
        _refuse(replica, path, status, content)
        try:
            return read(_parsed(content))
        except Malformed as error:
            raise _Transient(f"answered {path} with something else: {error}") from error

    async def _exchange(self, url: str, body: Json | None) -> tuple[int, bytes]:
        method = "GET" if body is None else "POST"
        async with self._http.stream(method, url, json=body) as response:
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise _Transient(f"its answer exceeds {_MOST_BYTES} bytes")
            return response.status_code, bytes(content)


def _refuse(replica: Replica, path: str, status: int, content: bytes) -> None:
    """Raise what a status other than success means."""
    if status < 300:
        return
    said = f"status {status}: {content[:_SHOWN].decode(errors='replace').strip() or 'no message'}"
    if status < 400 or status >= 500 or status in _PASSES:
        raise _Transient(said)
    if status in (404, 405):
        raise NotThere(f"{replica.url}{path} does not exist ({said}); is this an OpenAI-compatible server?")
    if status in (401, 403):
        raise EngineError(
            f"{replica.url} refuses us ({said}); name the variable of its key: teacher.server.key"
        )
    raise TeacherError(f"{replica.url} refused the request ({said})")


def _parsed(content: bytes) -> Json:
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise Malformed(f"no JSON: {content[:80]!r}") from error
    if not isinstance(answer, dict):
        raise Malformed(f"no JSON object: {content[:80]!r}")
    return answer
