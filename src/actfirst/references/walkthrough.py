"""References from the walkthroughs that game files carry, replayed when they are first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actfirst.envs.base import World
from actfirst.records import Reference, Task
from actfirst.references.replay import replay


class Walkthrough(Protocol):
    """Any game that says how it can be won."""

    @property
    def walkthrough(self) -> Sequence[str]: ...


class WalkthroughWorld(World, Protocol):
    """A world whose games carry walkthroughs."""

    def game(self, task: Task) -> Walkthrough: ...


class WalkthroughReferences:
    """One reference per task; games are deterministic, so replaying now is replaying offline.

    A walkthrough that does not win is no reference.
    """

    def __init__(self, world: WalkthroughWorld) -> None:
        self._world = world
        self._environment = world.open()
        self._replayed: dict[str, Reference | None] = {}

    def get(self, task: Task) -> Reference | None:
        if task.id not in self._replayed:
            actions = self._world.game(task).walkthrough
            reference = replay(self._environment, task, actions, "walkthrough")
            won = bool(reference.steps) and reference.steps[-1].observation.success
            self._replayed[task.id] = reference if won else None
        return self._replayed[task.id]
