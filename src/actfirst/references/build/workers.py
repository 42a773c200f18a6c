"""Runs independent jobs in this process or in worker processes: results as they come, no job lost.

For offline work over many tasks of slow simulators. A worker that dies, or needs longer than a job may take, is
replaced, and its job is given up with a reason. Workers end when the process that gave the work has ended, in whatever
way.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from actfirst.environments.pool.worker_process import WorkerProcess
from actfirst.errors import ActfirstError

Job = TypeVar("Job")
Result = TypeVar("Result")

_START_SECONDS = 600.0


class Worker(Protocol[Job, Result]):  # type: ignore[misc]
    """Does one job after another."""

    def work(self, job: Job) -> Result: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Why a job has no result."""

    reason: str


class _Host:
    """Begins in a worker process, which serves the one worker that is there."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._worker = begin()

    def open(self) -> Any:
        return self._worker


def run_jobs(
    jobs: Iterable[Job], begin: Callable[[], Worker[Job, Result]], workers: int, seconds: float
) -> Iterator[tuple[Job, Result | GivenUp]]:
    """All results in the order in which they come. 0 workers: in this process, in order, without a deadline.

    `begin` makes a worker; it travels to worker processes, so it has to be picklable.
    """
    if workers:
        yield from _elsewhere(list(jobs), pickle.dumps(partial(_Host, begin), protocol=4), workers, seconds)
        return
    worker = begin()
    try:
        for job in jobs:
            yield job, worker.work(job)
    finally:
        worker.close()


def _elsewhere(jobs: list[Job], opener: bytes, workers: int, seconds: float) -> Iterator[tuple[Job, Any]]:
    """The event loop runs while the next result is waited for."""
    waiting = iter(jobs)
    done: asyncio.Queue[tuple[Job, Any] | None] = asyncio.Queue()

    async def work_on() -> None:
        try:
            await _work(waiting, opener, seconds, done)
        finally:
            done.put_nowait(None)

    async def hire() -> list[asyncio.Task[None]]:
        return [asyncio.create_task(work_on()) for _ in range(min(workers, len(jobs)))]

    with asyncio.Runner() as runner:
        team = runner.run(hire())
        try:
            for _ in team:
                while (found := runner.run(done.get())) is not None:
                    yield found
                for member in team:
                    if member.done():
                        member.result()  # if one could not begin, no other would fare better
        finally:
            runner.run(_end(team))


async def _work(waiting: Iterator[Job], opener: bytes, seconds: float, done: asyncio.Queue[Any]) -> None:
    """One worker process after the other, until no job is left."""
    process = WorkerProcess(opener, "", _START_SECONDS)
    try:
        await process.started()
        for job in waiting:
            if process.ended:
                await process.close()
                process = WorkerProcess(opener, "", _START_SECONDS)
                await process.started()
            try:
                done.put_nowait((job, await process.call(1, "work", job, seconds, "the task")))
            except ActfirstError as failure:
                done.put_nowait((job, GivenUp(f"failed: {failure}")))
    finally:
        await process.close()


async def _end(team: list[asyncio.Task[None]]) -> None:
    for member in team:
        member.cancel()
    await asyncio.gather(*team, return_exceptions=True)
