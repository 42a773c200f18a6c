"""The weight of each turn's response in the loss, from the lengths of its trajectory's responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from actfirst.acting.base import Progress


class TurnWeights(Protocol):
    """One weighting rule, as a value: supervised token counts of one episode's responses to weights."""

    def weights(self, lengths: Sequence[int], progress: Progress) -> list[float]: ...


@dataclass(frozen=True)
class Uniform:
    """Every response counts the same: the paper's seq-mean-token-mean."""

    def weights(self, lengths: Sequence[int], progress: Progress) -> list[float]:
        return [1.0] * len(lengths)
