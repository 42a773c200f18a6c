"""A worker process: opens a world and plays its environments, each in a thread of its own, over two pipes.

    python -m actfirst.environments.pool.worker    (started by `pool`; speaks pickled frames on stdin and stdout)

The first frame is a callable that opens the world, every other a `Request`. When stdin ends, whoever started the
worker is gone: it closes its environments and ends, together with every process that they started. Whatever an
environment prints goes to stderr.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from queue import SimpleQueue
from typing import BinaryIO, Final

from actfirst.environments.base import Environment, World
from actfirst.errors import ActfirstError, TaskError
from actfirst.records import Observation, Task

HEADER: Final = struct.Struct(">I")
STARTED: Final = 0
"""The number of the reply that says whether the world could be opened."""

_PARTING_SECONDS = 3.0


class Call(StrEnum):
    """What can be asked of an environment."""

    RESET = "reset"
    STEP = "step"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `place` is the environment: a new place opens a new one."""

    number: int
    place: int
    call: Call
    argument: Task | str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call returned, or what went wrong; `task_at_fault` tells a wrong task from a failed environment."""

    number: int
    value: tuple[str, Observation] | Observation | None = None
    error: str = ""
    task_at_fault: bool = False


def framed(message: object) -> bytes:
    """A message with its length before it."""
    data = pickle.dumps(message, protocol=4)
    return HEADER.pack(len(data)) + data


class _Host:
    """The world of this process, and the way back to who asked."""

    def __init__(self, replies: BinaryIO) -> None:
        self._replies = replies
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._world: World | None = None

    def open_world(self, opener: bytes) -> None:
        try:
            open_world: Callable[[], World] = pickle.loads(opener)
            self._world = open_world()
        except BaseException as error:
            self.reply(_refusal(STARTED, error))
            return
        self.reply(Reply(STARTED))

    def open_environment(self) -> Environment:
        assert self._world is not None  # requests come after the world is announced
        with self._opening:
            return self._world.open()

    def reply(self, reply: Reply) -> None:
        frame = framed(reply)
        with self._writing:
            self._replies.write(frame)
            self._replies.flush()


class _Seat:
    """One environment and its thread: calls of different places never wait for each other."""

    def __init__(self, host: _Host) -> None:
        self._host = host
        self._environment: Environment | None = None
        self.requests: SimpleQueue[Request | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while (request := self.requests.get()) is not None:
            try:
                reply = Reply(request.number, self._answer(request))
            except BaseException as error:
                reply = _refusal(request.number, error)
            self._host.reply(reply)
            if request.call is Call.CLOSE:
                return
        self._close()

    def _answer(self, request: Request) -> tuple[str, Observation] | Observation | None:
        match request.call, request.argument:
            case Call.RESET, Task() as task:
                if self._environment is None:
                    self._environment = self._host.open_environment()
                return self._environment.reset(task)
            case Call.STEP, str() as action if self._environment is not None:
                return self._environment.step(action)
            case Call.CLOSE, _:
                self._close()
                return None
        raise ValueError(f"{request.call} was called out of order")

    def _close(self) -> None:
        environment, self._environment = self._environment, None
        if environment is not None:
            environment.close()


def _refusal(number: int, error: BaseException) -> Reply:
    said = str(error) if isinstance(error, ActfirstError) else f"{type(error).__name__}: {error}"
    return Reply(number, error=said, task_at_fault=isinstance(error, TaskError))


def _read(pipe: BinaryIO) -> bytes | None:
    """The next frame; None where the pipe has ended."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    data = pipe.read(length)
    return data if len(data) == length else None


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take stdin and stdout away from everybody else: neither prints nor child processes may disturb them."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _leave(seats: dict[int, _Seat]) -> None:
    """Close what can be closed in time, then end everything that belongs to this worker."""
    for seat in seats.values():
        seat.requests.put(None)
    for seat in seats.values():
        seat.thread.join(_PARTING_SECONDS / len(seats))
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Serve until stdin ends."""
    requests, replies = _private_pipes()
    host = _Host(replies)
    seats: dict[int, _Seat] = {}
    opener = _read(requests)
    if opener is not None:
        # In a thread, so that the end of stdin is noticed even if opening hangs.
        threading.Thread(target=host.open_world, args=(opener,), daemon=True).start()
        while (frame := _read(requests)) is not None:
            request: Request = pickle.loads(frame)
            if request.place not in seats:
                seats[request.place] = _Seat(host)
            seats[request.place].requests.put(request)
            if request.call is Call.CLOSE:
                del seats[request.place]
    _leave(seats)


if __name__ == "__main__":
    main()
