"""Parts of a lab, one after another or several at a time.

Several at a time have a process each, on a share of the processors that is its alone: times are comparable with one
another as long as all runs of a lab are made in the same way.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from actfirst.errors import ActfirstError

Say = Callable[[str], None]
_PATIENCE = 30.0


@dataclass(frozen=True)
class Part:
    """Something to be made. `make` is told whom to tell; it travels to another process."""

    name: str
    make: Callable[[Say], None]


@dataclass
class _Running:
    part: Part
    process: SpawnProcess
    cores: frozenset[int]
    fault: str = ""


def make_parts(parts: Sequence[Part], jobs: int, say: Say) -> list[str]:
    """Make all parts, `jobs` at a time; a part that fails does not stop the others. Returns what failed."""
    failures = _one_by_one(parts, say) if jobs == 1 else _SideBySide(jobs, say).make(parts)
    for line in failures:
        say(f"FAILED {line}")
    return failures


def _one_by_one(parts: Sequence[Part], say: Say) -> list[str]:
    failures = []
    for part in parts:
        try:
            part.make(say)
        except ActfirstError as error:
            failures.append(f"{part.name}: {error}")
    return failures


class _SideBySide:
    def __init__(self, jobs: int, say: Say) -> None:
        cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
        # With more jobs than cores some share one.
        self._free = [
            frozenset(cores[place::jobs] or cores[place % max(1, len(cores)) :][:1]) for place in range(jobs)
        ]
        self._say = say
        self._running: dict[Connection, _Running] = {}
        self._failures: list[str] = []

    def make(self, parts: Sequence[Part]) -> list[str]:
        waiting = deque(parts)
        before = signal.signal(signal.SIGTERM, _interrupted)
        try:
            while waiting or self._running:
                while waiting and self._free:
                    self._start(waiting.popleft())
                for wire in wait(list(self._running)):
                    assert isinstance(wire, Connection)
                    self._hear(wire)
        finally:
            signal.signal(signal.SIGTERM, before)
            for one in self._running.values():  # each ends by itself or is ended: what it has made is kept
                one.process.terminate()
            for one in self._running.values():
                one.process.join(_PATIENCE)
        return self._failures

    def _start(self, part: Part) -> None:
        context = multiprocessing.get_context("spawn")
        reader, writer = context.Pipe(duplex=False)
        cores = self._free.pop(0)
        process = context.Process(target=_make, args=(part, cores, writer), name=part.name)
        process.start()
        writer.close()
        self._running[reader] = _Running(part, process, cores)

    def _hear(self, wire: Connection) -> None:
        one = self._running[wire]
        try:
            kind, text = wire.recv()
        except EOFError:
            self._ended(self._running.pop(wire))
            return
        if kind == "fault":
            one.fault = text
        else:
            self._say(text)

    def _ended(self, one: _Running) -> None:
        one.process.join()
        self._free.append(one.cores)
        code = one.process.exitcode
        if one.fault or code:
            self._failures.append(f"{one.part.name}: {one.fault or f'its process ended with exit code {code}'}")


def _make(part: Part, cores: frozenset[int], wire: Connection) -> None:
    """What the process of a part does."""
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        part.make(lambda line: wire.send(("said", line)))
    except ActfirstError as error:
        wire.send(("fault", str(error)))
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt
