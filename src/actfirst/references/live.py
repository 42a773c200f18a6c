"""References made in the moment they are asked for, from what a world's tasks themselves say. No file.

For worlds whose replays take milliseconds and are not random, where replaying now is replaying offline.
"""

from __future__ import annotations

from actfirst.environments.base import World
from actfirst.environments.registry import Kind
from actfirst.environments.solving import Care
from actfirst.errors import EnvironmentFailure
from actfirst.records import Reference, Task
from actfirst.references.build.make import Job, Maker
from actfirst.references.sources import open_sources


class LiveReferences:
    """One reference per task, made once; None where no candidate works."""

    def __init__(self, kind: Kind, world: World, source: str) -> None:
        self._maker = Maker(kind, world, open_sources(kind, world, [source]), Care())
        self._made: dict[str, Reference | None] = {}

    def get(self, task: Task) -> Reference | None:
        if task.id not in self._made:
            attempt = self._maker.work(Job(task))
            if not attempt.tried:  # nothing was asked: this says nothing about the task
                raise EnvironmentFailure(f"no reference of {task.id} could be made; {attempt.reason}")
            self._made[task.id] = attempt.reference
        return self._made[task.id]
