"""The order in which training tasks are visited: a seeded shuffle per epoch, cut into rollout batches.

Each of the `per_batch` tasks of a batch comes `group_size` times, one after the other: its group is never split.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from actfirst.errors import ConfigError
from actfirst.records import Task
from actfirst.seeds import derive_seed


@dataclass(frozen=True)
class TaskOrder:
    """A pure function from batch index to tasks, so that a cursor is one number."""

    tasks: tuple[Task, ...]
    per_batch: int
    seed: int
    group_size: int = 1

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ConfigError("the training split has no tasks")

    def batch(self, index: int) -> list[Task]:
        first = index * self.per_batch
        tasks = [self._at(place) for place in range(first, first + self.per_batch)]
        return [task for task in tasks for _ in range(self.group_size)]

    def _at(self, place: int) -> Task:
        epoch, offset = divmod(place, len(self.tasks))
        return self.tasks[_permutation(len(self.tasks), derive_seed(self.seed, "epoch", epoch))[offset]]


@lru_cache(maxsize=4)
def _permutation(count: int, seed: int) -> Sequence[int]:
    places = list(range(count))
    random.Random(seed).shuffle(places)
    return places
