"""What was computed for an update: its micro-batches, put together, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from actfirst.learning.loss import LossConfig, LossStats, fetch


@dataclass(frozen=True, slots=True)
class Work:
    """What was computed for an update, in parts that can be put together with `+`."""

    sums: LossStats = field(default_factory=LossStats)
    micro_batches: int = 0
    rows: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.sums + other.sums, self.micro_batches + other.micro_batches, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one micro-batch gave: a table of statistics that is still on the device, and its rows."""

    table: Tensor
    rows: int


def fetched(batches: Sequence[Batch]) -> Work:
    """The work of all micro-batches: the one place where the learner waits for its statistics."""
    sums = fetch([batch.table for batch in batches])
    return Work(sums, len(batches), sum(batch.rows for batch in batches))


def extra_stats(work: Work, loss: LossConfig, steps: int) -> dict[str, float]:
    """What an update of `steps` optimiser steps says beside its main figures."""
    sums, tokens = work.sums, max(work.sums.tokens, 1)
    return {
        **({"optimizer_steps": float(steps)} if steps > 1 else {}),
        **({"anchor_kl": sums.kl / tokens} if loss.kl_weight else {}),
        **({"entropy": sums.entropy / tokens} if loss.entropy_weight else {}),
        "dual_clip_fraction": sums.dual_clipped / tokens,
        "ratio_mean": sums.ratio / tokens if sums.tokens else 1.0,
        "ratio_min": sums.ratio_min if sums.tokens else 1.0,
        "ratio_max": sums.ratio_max if sums.tokens else 1.0,
        "micro_batches": float(work.micro_batches),
        "computed_tokens": float(work.rows),
    }
