"""What can happen to a run's process, each installed in that process before it trains."""

from __future__ import annotations

import errno
import itertools
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

OPERATIONS = (
    "write",
    "fsync",
    "replace",
    "rename",
    "mkdir",
    "open",
    "ftruncate",
    "truncate",
    "rmdir",
    "unlink",
)
"""Functions of `os` that change what a kill leaves behind, or come before one that does."""


class Trouble(Protocol):
    """Called in the process that is about to train."""

    @property
    def kind(self) -> str: ...

    def __call__(self) -> None: ...


def watch(operations: str, called: Callable[[], None]) -> None:
    """Call something right before every call of these functions of `os`, named with spaces between them. Calls of the
    thread that samples utilisation do not count: their number depends on the clock."""

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if threading.current_thread().name != "utilisation":
                called()
            return operation(*arguments, **more)

        return call

    for name in operations.split():
        setattr(os, name, watched(getattr(os, name)))


def _at(operations: str, count: int, happen: Callable[[], None]) -> None:
    """Let something happen right before the `count`-th call of one of `operations`."""
    calls = itertools.count(1)

    def called() -> None:
        if next(calls) == count:
            happen()

    watch(operations, called)


@dataclass(frozen=True)
class Kill:
    """SIGKILL right before the `count`-th call of one of the `operations`, which is the same moment on any machine."""

    operations: str
    count: int
    kind: str = "kill at a file operation"

    def __call__(self) -> None:
        _at(self.operations, self.count, lambda: os.kill(os.getpid(), signal.SIGKILL))


@dataclass(frozen=True)
class NoSpace:
    """The `count`-th call of one of the `operations` finds the disk full."""

    operations: str
    count: int
    kind: str = "full disk"

    def __call__(self) -> None:
        def full() -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        _at(self.operations, self.count, full)


@dataclass(frozen=True)
class Signal:
    """A signal after so many seconds."""

    number: int
    seconds: float
    kind: str

    def __call__(self) -> None:
        timer = threading.Timer(self.seconds, os.kill, (os.getpid(), self.number))
        timer.daemon = True
        timer.start()


def draw(dice: random.Random, operations: int, seconds: float) -> Trouble:
    """A trouble somewhere in a run that makes about so many file operations of each kind and takes so long."""
    count = 1 + int(dice.random() ** 2 * operations)  # rare operations are few: small counts hit more of them
    match dice.randrange(4):
        case 0:
            return Kill(dice.choice(OPERATIONS), count)
        case 1:
            return NoSpace(dice.choice(("write", "fsync", "replace")), count)
        case 2:
            return Signal(signal.SIGKILL, dice.uniform(0.0, seconds), "kill at a random time")
        case _:
            return Signal(signal.SIGTERM, dice.uniform(0.0, seconds), "SIGTERM")
