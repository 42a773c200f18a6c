"""Runs independent jobs in this process or in worker processes: results as they come, no job lost.

For offline work over many tasks of slow simulators. A worker that dies, or needs longer than a job may take, is
replaced, and its job is given up with a reason. Workers end when the process that gave the work has ended, in whatever
way. Rollouts have a pool of their own; this is not it.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, Protocol, TypeVar

from actfirst.errors import EnvironmentFailure

Job = TypeVar("Job")
Result = TypeVar("Result")


class Worker(Protocol[Job, Result]):  # type: ignore[misc]
    """Does one job after another."""

    def work(self, job: Job) -> Result: ...

    def close(self) -> None: ...


class Labour(Protocol[Job, Result]):  # type: ignore[misc]
    """What makes a worker; it travels to worker processes, so it has to be picklable."""

    def begin(self) -> Worker[Job, Result]: ...


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Why a job has no result."""

    reason: str


def run_jobs(
    jobs: Iterable[Job], labour: Labour[Job, Result], workers: int, seconds: float
) -> Iterator[tuple[Job, Result | GivenUp]]:
    """All results in the order in which they come. 0 workers: in this process, in order, without a deadline."""
    if workers == 0:
        yield from _here(jobs, labour)
    else:
        yield from _elsewhere(deque(jobs), labour, workers, seconds)


def _here(jobs: Iterable[Job], labour: Labour[Job, Result]) -> Iterator[tuple[Job, Result | GivenUp]]:
    worker = labour.begin()
    try:
        for job in jobs:
            yield job, worker.work(job)
    finally:
        worker.close()


def _elsewhere(
    jobs: deque[Job], labour: Labour[Job, Result], workers: int, seconds: float
) -> Iterator[tuple[Job, Result | GivenUp]]:
    team = [_Process(labour, seconds) for _ in range(min(workers, len(jobs)))]
    try:
        while jobs or any(process.job for process in team):
            for process in team:
                if jobs and process.free:
                    process.give(jobs.popleft())
            wait([process.pipe for process in team], _until(min(process.deadline for process in team)))
            for process in team:
                if (outcome := process.look()) is not None:
                    yield outcome
    finally:
        for process in team:
            process.stop()


def _until(moment: float) -> float | None:
    return None if math.isinf(moment) else max(0.0, moment - time.monotonic())


class _Process(Generic[Job, Result]):
    """One worker process, replaced when it dies or hangs. A job's time begins when the worker has begun."""

    def __init__(self, labour: Labour[Job, Result], seconds: float) -> None:
        self._labour = labour
        self._seconds = seconds
        self.job: list[Job] = []
        self._start()

    @property
    def free(self) -> bool:
        return self._begun and not self.job

    def give(self, job: Job) -> None:
        self.job = [job]
        self.deadline = time.monotonic() + self._seconds
        with suppress(OSError):  # a worker that is gone is noticed by `look`
            self.pipe.send(job)

    def look(self) -> tuple[Job, Result | GivenUp] | None:
        """A job that is done with, and what came of it; None while nothing is."""
        if self.pipe.poll():
            try:
                said: Result | _Begun = self.pipe.recv()
            except (EOFError, OSError):
                return self._give_up("its worker died")
            self.deadline = math.inf
            if isinstance(said, _Begun):
                self._begin(said)
                return None
            return self.job.pop(), said
        if time.monotonic() >= self.deadline:
            return self._give_up(f"it took longer than {self._seconds:.0f} s")
        return None

    def stop(self) -> None:
        """End the process: it is asked first, so that it can end what it has started."""
        with suppress(OSError):
            self.pipe.send(_END)
        self._process.join(5 if self.free else 0)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.pipe.close()

    def _begin(self, said: _Begun) -> None:
        if said.error is not None:
            raise said.error
        self._begun = True

    def _give_up(self, reason: str) -> tuple[Job, GivenUp]:
        self.stop()
        code = self._process.exitcode
        died = f" (exit code {code})" if code not in (0, None) else ""
        if not self.job:
            raise EnvironmentFailure(
                f"a worker process ended before it had begun{died}; try --workers 0 to see why"
            )
        self._start()
        return self.job.pop(), GivenUp(f"failed: {reason}{died}")

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # simulators hold threads and sockets, which do not fork
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._labour), daemon=True)
        self._process.start()
        theirs.close()
        self._begun = False
        self.deadline = time.monotonic() + _START


_END = "end of work"
_START = 600.0  # seconds in which a worker must have begun
_PARTING = 3.0  # seconds in which a worker whose owner is gone may end what it has started


@dataclass(frozen=True)
class _Begun:
    """A worker's first word. If it could not begin, no job would fare better: the whole work ends."""

    error: Exception | None = None


def _serve(pipe: Connection, labour: Labour[Job, Result]) -> None:
    """The life of a worker process."""
    threading.Thread(target=_end_with_owner, daemon=True).start()
    try:
        worker = labour.begin()
    except Exception as error:
        pipe.send(_Begun(error))
        return
    pipe.send(_Begun())
    try:
        while (job := pipe.recv()) != _END:
            pipe.send(worker.work(job))
    except (EOFError, OSError, KeyboardInterrupt):
        pass  # whoever gave the work is gone
    finally:
        worker.close()


def _end_with_owner() -> None:
    """The pipe is read between jobs only; a job that hangs would keep a worker for ever after its owner was killed."""
    owner = multiprocessing.parent_process()
    assert owner is not None
    owner.join()
    time.sleep(_PARTING)
    os._exit(1)
