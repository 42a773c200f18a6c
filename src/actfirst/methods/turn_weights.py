"""The weight of each turn's response in the loss, from the lengths of its trajectory's responses.

The loss averages over the tokens of a response and then over responses (seq-mean-token-mean), so equal weights
already balance turns. A trajectory-wide token mean is expressed by weights in proportion to the lengths.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from actfirst.methods.acting.base import TrainingPoint


class TurnWeights(Protocol):
    """One weighting rule, as a value: supervised token counts of one episode's responses to weights."""

    def weights(self, lengths: Sequence[int], point: TrainingPoint) -> list[float]: ...


@dataclass(frozen=True)
class Uniform:
    """Every response counts the same: the paper's seq-mean-token-mean."""

    def weights(self, lengths: Sequence[int], point: TrainingPoint) -> list[float]:
        return [1.0] * len(lengths)


@dataclass(frozen=True)
class TokenToTurn:
    """TurnOPD-style: from a token mean over the trajectory to balanced turns, over a share `warm` of all updates.

    w_t = (1 - lambda) L_t / mean(L) + lambda, lambda = min(1, n / (warm N)); n and N count updates.
    """

    warm: float

    def weights(self, lengths: Sequence[int], point: TrainingPoint) -> list[float]:
        if not lengths:
            return []
        balance = min(1.0, point.update / (self.warm * point.updates))
        mean = statistics.fmean(lengths)
        return [(1.0 - balance) * length / mean + balance for length in lengths]
