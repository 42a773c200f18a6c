"""What can happen to a run's process, each installed in that process before it trains.

A trouble is told how to note that it has come (`struck`), so that what came too late counts as such. What ends the
process with SIGKILL, or a process that it started, is a kill. The loss of power is in `power.py`.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from actfirst.config.config import Config

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
ANY = " ".join(OPERATIONS)

Struck = Callable[[], None]


def unnoted() -> None:
    """For who does not count."""


class Trouble(Protocol):
    """Called in the process that is about to train."""

    @property
    def kind(self) -> str: ...

    @property
    def kills(self) -> bool: ...

    def __call__(self, struck: Struck = unnoted) -> None: ...


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


def at(operations: str, count: int, happen: Callable[[], None], *, again: bool = False) -> None:
    """Let something happen right before the `count`-th call of one of `operations`; with `again`, before every
    `count`-th."""
    calls = itertools.count(1)

    def called() -> None:
        number = next(calls)
        if number == count or (again and number % count == 0):
            happen()

    watch(operations, called)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Kill:
    """SIGKILL right before the `count`-th call of one of the `operations`, which is the same moment on any machine."""

    operations: str
    count: int
    kind: str = "kill at a file operation"
    kills: bool = True

    def __call__(self, struck: Struck = unnoted) -> None:
        def strike() -> None:
            struck()
            die()

        at(self.operations, self.count, strike)


@dataclass(frozen=True)
class NoSpace:
    """The `count`-th call of one of the `operations` finds the disk full."""

    operations: str
    count: int
    kind: str = "full disk"
    kills: bool = False

    def __call__(self, struck: Struck = unnoted) -> None:
        def full() -> None:
            struck()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        at(self.operations, self.count, full)


@dataclass(frozen=True)
class SlowDisk:
    """Every file operation takes so many seconds longer."""

    seconds: float
    kind: str = "slow disk"
    kills: bool = False

    def __call__(self, struck: Struck = unnoted) -> None:
        at(ANY, 1, struck)
        watch(ANY, lambda: time.sleep(self.seconds))


@dataclass(frozen=True)
class ClockJump:
    """At the `count`-th file operation the clock of the day jumps, forwards or back; the monotonic one goes on."""

    count: int
    seconds: float
    kind: str = "clock jump"
    kills: bool = False

    def __call__(self, struck: Struck = unnoted) -> None:
        now, now_ns, local, strftime = time.time, time.time_ns, time.localtime, time.strftime

        def jump() -> None:
            struck()
            vars(time).update(
                time=lambda: now() + self.seconds,
                time_ns=lambda: now_ns() + int(self.seconds * 1e9),
                localtime=lambda seconds=None: local(now() + self.seconds if seconds is None else seconds),
                strftime=lambda form, *of: strftime(form, *(of or (local(now() + self.seconds),))),
            )

        at(ANY, self.count, jump)


@dataclass(frozen=True)
class LostPart:
    """SIGKILL for a process that the run started, one whose command line holds `name`, before every `every`-th line
    that the run writes, at most so many `times`. The run itself goes on, and has to notice."""

    name: str
    kind: str
    every: int
    times: int
    kills: bool = True

    def __call__(self, struck: Struck = unnoted) -> None:
        lost = itertools.count()

        def lose() -> None:
            parts = [] if next(lost) >= self.times else self._parts()
            if parts:
                struck()
                os.kill(parts[-1], signal.SIGKILL)

        at("write", self.every, lose, again=True)

    def _parts(self) -> list[int]:
        import psutil

        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                if self.name in " ".join(process.cmdline()):
                    found.append(int(process.pid))
            except psutil.Error:
                continue  # it has ended meanwhile
        return found


@dataclass(frozen=True)
class Signal:
    """A signal after so many seconds."""

    number: int
    seconds: float
    kind: str

    @property
    def kills(self) -> bool:
        return self.number == signal.SIGKILL

    def __call__(self, struck: Struck = unnoted) -> None:
        def strike() -> None:
            struck()
            os.kill(os.getpid(), self.number)

        timer = threading.Timer(self.seconds, strike)
        timer.daemon = True
        timer.start()


# Parts of a run that are processes of their own: what their command lines hold.
WORKER = ("actfirst.environments.pool.worker", "lost environment worker")
ON_RAY = (
    ("ray::RankActor", "lost learner rank"),
    ("ray::EngineActor", "lost engine or teacher"),
    ("ray::EnvironmentActor", "lost environment actor"),
    ("ray::RolloutActor", "lost rollout driver"),
)


def parts_of(config: Config) -> tuple[tuple[str, str], ...]:
    """The processes that runs of a recipe start."""
    if config.runtime.kind == "ray":
        settings = config.runtime
        there = (True, True, settings.environment_workers > 0, settings.rollout_drivers > 0)
        return tuple(part for part, started in zip(ON_RAY, there, strict=True) if started)
    return (WORKER,) if config.pool.kind == "processes" else ()
