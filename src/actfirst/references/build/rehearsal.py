"""What a simulator can tell about a list of actions without playing it as an environment does.

ScienceWorld's list of valid commands is by far its dearest answer. A score needs none, so shortening, which needs many
replays, asks here. A rehearsal executes every action, valid or not, so its score is a hint: what it finds is replayed
in the environment before it counts. It also words commands as the simulator lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actfirst.environments.base import World
from actfirst.environments.scienceworld.gold import GoldPaths
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.records import Task


class Rehearsal(Protocol):
    """Plays lists of actions at a fraction of the cost of an environment."""

    def score(self, task: Task, actions: Sequence[str]) -> float:
        """The best score that the actions reach."""
        ...

    def reword(self, task: Task, actions: Sequence[str]) -> tuple[str, ...]:
        """The same actions as they are admissible, without those that are not under any name."""
        ...

    def close(self) -> None: ...


def open_rehearsal(world: World) -> Rehearsal | None:
    """For worlds in which it is possible and worth it; None elsewhere."""
    return _Scienceworld(GoldPaths(world)) if isinstance(world, ScienceworldWorld) else None


class _Scienceworld:
    def __init__(self, paths: GoldPaths) -> None:
        self._paths = paths

    def score(self, task: Task, actions: Sequence[str]) -> float:
        return self._paths.play(task, actions).score

    def reword(self, task: Task, actions: Sequence[str]) -> tuple[str, ...]:
        return self._paths.reword(task, actions)

    def close(self) -> None:
        self._paths.close()
