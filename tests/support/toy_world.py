"""A minimal environment for tests of the core: a corridor of rooms with a lever in the last one.

The agent moves `go east` / `go west`, and wins with `pull lever` in the last room. Everything is worded in the
ALFWorld manner, so that its templates and rules apply. `hop east` does what `go east` does but is never listed:
references use it, so that a reference action in a prompt can be told from an admissible one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.environments.alfworld.kind import PROMPTS
from actfirst.environments.alfworld.rules import AlfworldRules
from actfirst.environments.base import Environment, EnvironmentKind, OptionsSection
from actfirst.errors import TaskError
from actfirst.records import Observation, Reference, Task
from actfirst.references.build.replay import replay


@dataclass
class CorridorEnvironment:
    """`length` rooms; the task id ends with the number of rooms."""

    place: int = 0
    length: int = 1
    won: bool = False

    def reset(self, task: Task) -> tuple[str, Observation]:
        name, _, length = task.id.rpartition("/")
        if not name.startswith("corridor"):
            raise TaskError(f"unknown task {task.id}")
        self.place, self.length, self.won = 0, int(length.split("-")[0]), False
        return "pull the lever in the last room", self._observe("You stand at the west end of a corridor.")

    def step(self, action: str) -> Observation:
        if action == "hop east" and "go east" in self._actions():
            action = "go east"
        if action not in self._actions():
            return self._observe("Nothing happens.")
        if action == "pull lever":
            self.won = True
            return self._observe("The lever clicks. You won.")
        self.place += 1 if action == "go east" else -1
        return self._observe(f"You are in room {self.place + 1} of {self.length}.")

    def close(self) -> None:
        self.won = False

    def _actions(self) -> tuple[str, ...]:
        east = ("go east",) if self.place < self.length - 1 else ("pull lever",)
        west = ("go west",) if self.place > 0 else ()
        return (*east, *west)

    def _observe(self, text: str) -> Observation:
        return Observation(
            text=text,
            admissible=self._actions(),
            done=self.won,
            success=self.won,
            score=100.0 if self.won else 0.0,
            state=f"{self.place}",
        )


@dataclass(frozen=True)
class CorridorWorld:
    """Corridors of 2 to 5 rooms."""

    name: str = "corridor"
    turn_limit: int = 8
    fingerprint: str = "corridor-1"

    def splits(self) -> Sequence[str]:
        return ("train", "seen")

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self.splits():
            raise TaskError(f"unknown split {split!r}; there are {', '.join(self.splits())}")
        return [Task(f"corridor/{split}/{2 + n % 4}-{n:03d}", split, f"rooms{2 + n % 4}") for n in range(40)]

    def open(self) -> Environment:
        return CorridorEnvironment()


def open_corridor(section: OptionsSection) -> CorridorWorld:
    return CorridorWorld()


CORRIDOR = EnvironmentKind(
    name="corridor", section=OptionsSection, open=open_corridor, rules=AlfworldRules(), prompts=PROMPTS
)
"""Not registered: tests hand it over."""


class CorridorReferences:
    """Straight to the lever."""

    def get(self, task: Task) -> Reference | None:
        rooms = int(task.id.rpartition("/")[2].split("-")[0])
        return replay(CorridorEnvironment(), task, ["hop east"] * (rooms - 1) + ["pull lever"], "script")
