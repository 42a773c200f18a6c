"""Numbers that vary from round to round: the middle one and how far the others lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


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
