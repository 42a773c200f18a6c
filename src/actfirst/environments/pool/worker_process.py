"""A worker process as its owner sees it: started, asked, and ended when it does not answer in time.

Calls are numbered, so one number tells who may have brought a worker down: of a hang, the call that was late and those
that were asked before it (it may have waited for one of them); of a crash, every call that was in flight. Whoever
else played there is told by a WorkerLost. If nobody was calling, everybody is a suspect: each loss is held against
somebody.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import signal
import sys
from collections import deque
from contextlib import suppress
from itertools import count
from typing import Any

from actfirst.environments.pool.worker import HEADER, STARTED, Reply, Request, framed
from actfirst.errors import EnvironmentFailure, TaskError, WorkerLost

_START = "from actfirst.environments.pool.worker import main; main()"
_PARTING_SECONDS = 6.0
_HEARING_SECONDS = 1.0
"""What a dead worker said arrives at once; its pipes may be held open forever by a process that it started."""
_LAST_WORDS = 4


class WorkerProcess:
    """Starts at once, in the background. `ended` says why it is over; empty while it lives."""

    def __init__(self, opener: bytes, python: str, start_seconds: float) -> None:
        self.ended = ""
        self._python = os.path.expanduser(python)
        self._seconds = start_seconds
        self._last_suspect = math.inf
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._numbers = count(STARTED + 1)
        self._said: deque[str] = deque(maxlen=_LAST_WORDS)
        self._process: asyncio.subprocess.Process | None = None
        self._ears: list[asyncio.Task[None]] = []
        self._starting = asyncio.ensure_future(self._start(opener))

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and not self.ended else None

    async def started(self) -> None:
        """Wait until the world is open; raises EnvironmentFailure where it cannot be opened."""
        await asyncio.shield(self._starting)

    async def call(self, place: int, method: str, argument: object, seconds: float, said: str) -> Any:
        """Ask and wait for the answer. `said` names the call in messages."""
        number = next(self._numbers)
        reply = await self._ask(number, framed(Request(number, place, method, argument)), seconds, said)
        if reply.error:
            raise (TaskError if reply.task_at_fault else EnvironmentFailure)(f"{said}: {reply.error}")
        return reply.value

    async def close(self) -> None:
        """Let it end by itself, or make it."""
        if not self._starting.done():
            self._starting.cancel()
        await asyncio.wait([self._starting])
        if not self._starting.cancelled():
            self._starting.exception()  # whoever waited for the start has been told
        self._fail("the pool was closed", math.inf)
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_PARTING_SECONDS):
                await self._exit_code()
        except TimeoutError:
            self._kill()
            await self._exit_code()
        _, deaf = await asyncio.wait(self._ears, timeout=_HEARING_SECONDS)
        for ear in deaf:
            ear.cancel()
        await asyncio.gather(*self._ears, return_exceptions=True)
        self._process._transport.close()  # type: ignore[attr-defined]  # else a pipe that is held open stays ours

    async def _start(self, opener: bytes) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                self._python or sys.executable,
                "-P",
                "-c",
                _START,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=_surroundings(self._python),
                start_new_session=True,  # so that it can be ended together with what it started
            )
        except OSError as error:
            self.ended = f"cannot start {self._python or sys.executable}: {error.strerror or error}"
            raise EnvironmentFailure(f"{self.ended}; correct pool.python") from error
        self._ears = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._overhear())]
        said = "opening the world in a worker process"
        reply = await self._ask(STARTED, HEADER.pack(len(opener)) + opener, self._seconds, said)
        if reply.error:
            self.end(reply.error, math.inf)
            raise EnvironmentFailure(f"{said}: {reply.error}")

    async def _ask(self, number: int, frame: bytes, seconds: float, said: str) -> Reply:
        if self.ended:
            raise self._loss(number, f"{said}: {self.ended}")
        assert self._process is not None
        assert self._process.stdin is not None
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._process.stdin.write(frame)
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            if self.ended:  # somebody else was late in the same moment
                raise self._loss(number, f"{said}: {self.ended}") from None
            late = f"took longer than {seconds:g} s"
            self.end(f"its worker process was ended because another environment hung ({said} {late})", number)
            raise EnvironmentFailure(f"{said} {late}; its worker process was ended") from None
        finally:
            self._waiting.pop(number, None)

    def end(self, reason: str, last_suspect: float) -> None:
        """Kill it, and everything that it started."""
        self._fail(reason, last_suspect)
        self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _fail(self, reason: str, last_suspect: float) -> None:
        """Everybody who waits is told why there will be no answer."""
        if not self.ended:
            self.ended, self._last_suspect = reason, last_suspect
        for number, answer in self._waiting.items():
            if not answer.done():
                answer.set_exception(self._loss(number, self.ended))

    def _loss(self, number: int, said: str) -> EnvironmentFailure:
        """What a call that gets no answer is told."""
        return (EnvironmentFailure if number <= self._last_suspect else WorkerLost)(said)

    def _in_flight(self) -> float:
        """The last call that nobody has answered yet."""
        return max(self._waiting, default=math.inf)

    async def _exit_code(self) -> int:
        """Not `Process.wait`: up to Python 3.12 that waits for everybody who holds the pipes open, too."""
        assert self._process is not None
        while self._process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return self._process.returncode

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            while True:
                header = await self._process.stdout.readexactly(HEADER.size)
                reply: Reply = pickle.loads(await self._process.stdout.readexactly(HEADER.unpack(header)[0]))
                answer = self._waiting.get(reply.number)
                if answer is not None and not answer.done():  # nobody waits for the answer of a cancelled call
                    answer.set_result(reply)
        except asyncio.IncompleteReadError:
            suspect = self._in_flight()
            code = await self._exit_code()
            self._kill()  # what it started may still be there
            await asyncio.wait([self._ears[1]], timeout=_HEARING_SECONDS)
            last = f"; it said: {' / '.join(self._said)}" if self._said else ""
            self._fail(f"the worker process ended ({_how(code)}){last}", suspect)
        except Exception as error:  # an answer of another version of actfirst, or no answer at all
            said = f"the worker process sent what cannot be read: {type(error).__name__}: {error}"
            self.end(said, self._in_flight())

    async def _overhear(self) -> None:
        """Keep the last lines of stderr for messages; nothing of it reaches the terminal."""
        assert self._process is not None
        assert self._process.stderr is not None
        rest = b""
        while data := await self._process.stderr.read(1 << 14):
            *lines, rest = (rest + data)[-(1 << 14) :].split(b"\n")
            self._said.extend(line.decode(errors="replace").strip() for line in lines if line.strip())


def _surroundings(python: str) -> dict[str, str]:
    """This interpreter again finds what this process finds; another one has its own packages."""
    variables = dict(os.environ)
    variables.setdefault("OMP_NUM_THREADS", "1")
    if not python:
        variables["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return variables


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
