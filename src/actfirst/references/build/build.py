"""Builds a reference store over many tasks: resumable at any point, in this process or in several.

What one task needs is in `make.py`; what is kept is in `store.py`. A task is attempted if it has no line yet, if a
source is given that was not asked before, or if its environment failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from actfirst.environments.base import World
from actfirst.environments.registry import Kind
from actfirst.environments.solving import Care
from actfirst.records import Task
from actfirst.references.build.make import Job, Maker
from actfirst.references.build.workers import GivenUp, run_jobs
from actfirst.references.sources import Import, Imported, ImportedSource, open_sources
from actfirst.references.store import Attempt, Configuration, ReferenceWriter

OpenWorld = Callable[[], World]
"""Opens the world that references are for; it travels to worker processes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for candidates, and how much is done for each task (None: what the benchmark needs).

    `again` asks all sources again, of all tasks; `seconds` is how long one task may take in a worker process.
    """

    sources: tuple[str, ...]
    imports: tuple[Import, ...] = ()
    care: Care | None = None
    workers: int = 0
    again: bool = False
    seconds: float = 1800.0


def _maker(kind: Kind, open_world: OpenWorld, plan: Plan) -> Maker:
    """One per process."""
    world = open_world()
    sources = open_sources(kind, world, plan.sources, plan.imports)
    return Maker(kind, world, sources, plan.care or kind.sources.care)


def build_store(
    kind: Kind,
    open_world: OpenWorld,
    plan: Plan,
    tasks: Sequence[Task],
    path: Path,
    configuration: Configuration | None = None,
    on_task: Callable[[int, int, Attempt | None], None] = lambda done, of, attempt: None,
    on_import: Callable[[Imported], None] = lambda imported: None,
) -> None:
    """Attempt every task that needs it; each outcome is in the store at `path` as soon as it is known. `on_import` is
    told before that what was found in each file of demonstrations."""
    world = open_world()
    world.open().close()  # what is missing here would be missing for every task
    sources = open_sources(kind, world, plan.sources, plan.imports)
    for source in sources:
        if isinstance(source, ImportedSource):
            on_import(source.used)
    keys = {source.key for source in sources}
    writer = ReferenceWriter(path, world, configuration)
    try:
        jobs = [job for task in tasks if (job := _job(task, writer.store.attempt(task.id), keys, plan.again))]
        done = len(tasks) - len(jobs)
        on_task(done, len(tasks), None)
        for job, outcome in run_jobs(jobs, partial(_maker, kind, open_world, plan), plan.workers, plan.seconds):
            attempt = _given_up(job, outcome) if isinstance(outcome, GivenUp) else outcome
            if attempt != job.before:
                writer.add(attempt)
            done += 1
            on_task(done, len(tasks), attempt)
    finally:
        writer.close()


def _job(task: Task, before: Attempt | None, keys: set[str], again: bool) -> Job | None:
    if before is not None and not again and keys.issubset(before.tried):
        return None
    return Job(task, before, again)


def _given_up(job: Job, outcome: GivenUp) -> Attempt:
    if job.before is not None and job.before.reference is not None:
        return job.before
    return Attempt(job.task.id, job.task.split, job.task.kind, (), reason=outcome.reason)

