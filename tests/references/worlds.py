"""Corridors (`tests.support.toy_world`) with faults of real simulators, and sources that a test writes down."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from actfirst.environments.base import Environment
from actfirst.environments.solving import ReferenceSources
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task
from actfirst.references.sources import Candidate
from tests.support.toy_world import CORRIDOR, CorridorEnvironment, CorridorWorld


@dataclass(frozen=True)
class Written:
    """Proposes the same action lists for every task."""

    lists: tuple[tuple[str, ...], ...]
    key: str = "written"

    def candidates(self, task: Task, instruction: str) -> Iterator[Candidate]:
        for actions in self.lists:
            yield Candidate(actions, self.key)


@dataclass
class _Counting(CorridorEnvironment):
    """Says in every `every`-th episode, at its second step, that it rains."""

    every: int = 0
    resets: int = 0
    steps: int = 0

    def reset(self, task: Task) -> tuple[str, Observation]:
        self.resets, self.steps = self.resets + 1, 0
        return super().reset(task)

    def step(self, action: str) -> Observation:
        self.steps += 1
        seen = super().step(action)
        if self.every and self.steps == 2 and self.resets % self.every == 0:
            return replace(seen, text=f"{seen.text} It rains.")
        return seen


@dataclass(frozen=True)
class WeatherWorld(CorridorWorld):
    """It rains in every `every`-th episode of an environment."""

    every: int = 2

    def open(self) -> Environment:
        return _Counting(every=self.every)


def _always(task: Task) -> bool:
    return True


WEATHER = replace(CORRIDOR, sources=ReferenceSources(chance=_always))
"""Its tasks are known to be random."""


@dataclass
class _Breaking(CorridorEnvironment):
    faults: Iterator[bool] = field(default_factory=lambda: itertools.repeat(True))

    def step(self, action: str) -> Observation:
        if next(self.faults):
            raise EnvironmentFailure("the simulator died")
        return super().step(action)


@dataclass(frozen=True)
class BreakingWorld(CorridorWorld):
    """The first `faults` steps of all environments fail."""

    faults: list[bool] = field(default_factory=list)

    def open(self) -> Environment:
        return _Breaking(faults=self._faults())

    def _faults(self) -> Iterator[bool]:
        while True:
            yield self.faults.pop() if self.faults else False


@dataclass
class _Cursed(CorridorEnvironment):
    def reset(self, task: Task) -> tuple[str, Observation]:
        if task.id.endswith("001"):
            os._exit(7)
        if task.id.endswith("002"):
            time.sleep(600)
        return super().reset(task)


@dataclass(frozen=True)
class CursedWorld(CorridorWorld):
    """Task 001 kills its process, task 002 hangs."""

    def open(self) -> Environment:
        return _Cursed()


def tasks(count: int = 4) -> Sequence[Task]:
    return CorridorWorld().tasks("train")[:count]
