"""ScienceWorld as the paper configures it: version 1.2.3, `easy` preset, its own split of task types and variations."""

from __future__ import annotations

from collections.abc import Sequence

from actfirst.environments.scienceworld.environment import Assignment, ScienceworldPlayer
from actfirst.environments.scienceworld.java import VERSION
from actfirst.environments.scienceworld.simulator import PRESET
from actfirst.environments.scienceworld.tasks import PAPER_EVAL, SPLITS, VARIATIONS, Gate, list_tasks
from actfirst.errors import ConfigError, TaskError
from actfirst.records import Task

TURN_LIMIT = 30
REVISION: dict[Gate, int] = {"valid list": 1, "none": 2}
"""Counts changes of this package after which stored references would not replay. The gate answers questions itself, so
what replays behind it does not always replay without it."""


class ScienceworldWorld:
    """The tasks of the paper's split, or those of some task types. Listing them starts nothing.

    `seed` decides what the simulator leaves to chance. `fingerprint` does not depend on the choice of task types.
    """

    name = "scienceworld"

    def __init__(
        self,
        kinds: Sequence[str] = (),
        seed: int = 0,
        turn_limit: int = TURN_LIMIT,
        gate: Gate = "none",
        eval_variations: int = PAPER_EVAL,
    ) -> None:
        unknown = [kind for kind in kinds if kind not in VARIATIONS]
        if unknown:
            raise ConfigError(
                f"environment.kinds: ScienceWorld has no task type {unknown[0]!r}; it has {', '.join(VARIATIONS)}"
            )
        chosen = [kind for kind in VARIATIONS if kind in kinds] if kinds else list(VARIATIONS)
        self.seed = seed
        self.turn_limit = turn_limit
        self.gate: Gate = gate
        self.fingerprint = f"scienceworld-{VERSION}-{PRESET}-{REVISION[gate]}-s{seed}"
        self._tasks = {
            split: tasks for split in SPLITS if (tasks := list_tasks(chosen, split, eval_variations))
        }

    def splits(self) -> Sequence[str]:
        return tuple(self._tasks)

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self._tasks:
            raise TaskError(
                f"scienceworld has no split {split!r} with these task types; it has {', '.join(self._tasks)}"
            )
        return self._tasks[split]

    def open(self) -> ScienceworldPlayer:
        return ScienceworldPlayer(self.assignment, self.gate)

    def assignment(self, task: Task) -> Assignment:
        """What a task is to the simulator. Any variation may be named, in a split or not."""
        name, *rest = task.id.split("/")
        if name == self.name and len(rest) == 3 and rest[1] in VARIATIONS and rest[2].isdecimal():
            kind, variation = rest[1], int(rest[2])
            if variation < VARIATIONS[kind]:
                return Assignment(kind, variation, self.seed)
        raise TaskError(f"scienceworld has no task {task.id!r}; an example: scienceworld/train/boil/0")
