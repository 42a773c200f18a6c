"""Tasks of a world that knows them by number only: the first ones are for training, those after them for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.errors import TaskError
from actfirst.records import Task


@dataclass(frozen=True, slots=True)
class NumberedTasks:
    """`sizes` are the tasks of each split. `first` is the number of a split's first task where they do not follow on
    each other, as with seeds."""

    name: str
    kind: str
    sizes: dict[str, int]
    first: dict[str, int]

    def of(self, split: str) -> Sequence[Task]:
        if split not in self.sizes:
            raise TaskError(f"unknown split {split!r}; there are {', '.join(self.sizes)}")
        begin = self.first[split]
        return [
            Task(f"{self.name}/{begin + place:07d}", split, self.kind) for place in range(self.sizes[split])
        ]

    def number(self, task: Task) -> int:
        name, _, number = task.id.rpartition("/")
        if name != self.name or not number.isdigit():
            raise TaskError(f"{task.id} is no task of {self.kind}")
        return int(number)
