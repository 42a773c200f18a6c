"""How many turns of a rollout are played during training. Evaluation always plays the full horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from actfirst.acting.base import Progress


class Depth(Protocol):
    """One depth rule, as a value."""

    def limit(self, turn_limit: int, progress: Progress) -> int: ...


@dataclass(frozen=True)
class FullDepth:
    """Every rollout may use the environment's whole turn limit."""

    def limit(self, turn_limit: int, progress: Progress) -> int:
        return turn_limit


@dataclass(frozen=True)
class GrowingDepth:
    """min(start + floor(n / every), turn limit); `counter` says what n counts."""

    start: int
    every: int
    counter: Literal["batch", "update"]

    def limit(self, turn_limit: int, progress: Progress) -> int:
        n = progress.batch if self.counter == "batch" else progress.update
        return min(self.start + n // self.every, turn_limit)
