"""A worker process: makes a host of objects and serves calls of their methods, over two pipes.

    python -m actfirst.environments.pool.worker    (started by `worker_process`; pickled frames on stdin and stdout)

The first frame is a callable that makes the host (a world, whose objects are environments), every other a `Request`.
Each object has a thread of its own. When stdin ends, whoever started the worker is gone: it closes its objects and
ends, together with every process that they started. Whatever an object prints goes to stderr.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, BinaryIO, Final, Protocol

from actfirst.errors import ActfirstError, TaskError

HEADER: Final = struct.Struct(">I")
STARTED: Final = 0
"""The number of the reply that says whether the world could be opened."""

_PARTING_SECONDS = 3.0


class Host(Protocol):
    """What the process is for. What it opens has a method `close`, and those that requests name."""

    def open(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `place` is the object: a new place opens a new one. `close` is the last call of a place."""

    number: int
    place: int
    method: str
    argument: object = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call returned, or what went wrong; `task_at_fault` tells a wrong task from a failed environment."""

    number: int
    value: Any = None
    error: str = ""
    task_at_fault: bool = False


def framed(message: object) -> bytes:
    """A message with its length before it."""
    data = pickle.dumps(message, protocol=4)
    return HEADER.pack(len(data)) + data


class _Server:
    """The host of this process, and the way back to who asked."""

    def __init__(self, replies: BinaryIO) -> None:
        self._replies = replies
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._host: Host | None = None

    def begin(self, opener: bytes) -> None:
        try:
            make: Callable[[], Host] = pickle.loads(opener)
            self._host = make()
        except BaseException as error:
            self.reply(_refusal(STARTED, error))
            return
        self.reply(Reply(STARTED))

    def open(self) -> Any:
        assert self._host is not None  # requests come after the start is announced
        with self._opening:
            return self._host.open()

    def reply(self, reply: Reply) -> None:
        frame = framed(reply)
        with self._writing:
            self._replies.write(frame)
            self._replies.flush()


class _Seat:
    """One object and its thread: calls of different places never wait for each other."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._served: Any = None
        self.requests: SimpleQueue[Request | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while (request := self.requests.get()) is not None:
            try:
                reply = Reply(request.number, self._answer(request))
            except BaseException as error:
                reply = _refusal(request.number, error)
            self._server.reply(reply)
            if request.method == "close":
                return
        self._close()

    def _answer(self, request: Request) -> Any:
        if request.method == "close":
            return self._close()
        if self._served is None:
            self._served = self._server.open()
        return getattr(self._served, request.method)(request.argument)

    def _close(self) -> None:
        served, self._served = self._served, None
        if served is not None:
            served.close()


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
    server = _Server(replies)
    seats: dict[int, _Seat] = {}
    opener = _read(requests)
    if opener is not None:
        # In a thread, so that the end of stdin is noticed even if opening hangs.
        threading.Thread(target=server.begin, args=(opener,), daemon=True).start()
        while (frame := _read(requests)) is not None:
            request: Request = pickle.loads(frame)
            if request.place not in seats:
                seats[request.place] = _Seat(server)
            seats[request.place].requests.put(request)
            if request.method == "close":
                del seats[request.place]
    _leave(seats)


if __name__ == "__main__":
    main()
