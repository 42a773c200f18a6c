"""What measurements share: numbers that vary from round to round, and how to tell how far a measurement is."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Told = Callable[[int, int, str], None]
"""Told how many parts are done, of how many, and what the latest one was."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some rounds with the least and the largest of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int = 2) -> str:
        return f"{self.median:.{digits}f} ({self.least:.{digits}f}-{self.most:.{digits}f})"


def ratios(base: Sequence[float], other: Sequence[float]) -> Spread:
    """How many times less `other` is than `base`, round by round: the rounds are paired."""
    return Spread.of([one / two for one, two in zip(base, other, strict=True)])
