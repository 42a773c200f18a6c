"""What measurements share: numbers that vary from round to round, and how progress is reported."""

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


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A quantity over many turns: its mean, and the range that 90 % of them lie in."""

    mean: float
    p5: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """With linear interpolation between the two nearest values."""
        twentieths = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else values
        return cls(statistics.fmean(values), twentieths[0], twentieths[-1])
