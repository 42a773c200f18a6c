"""Two evaluations on the same tasks and seeds, compared in pairs: most of their spread is that of tasks, which cancels.

Seeds of one task are not independent of each other, so tasks are what is counted and drawn: the exact sign test over
tasks (with one seed, McNemar's exact test) and an interval by bootstrap over tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import comb

import numpy as np

from actfirst.errors import ConfigError
from actfirst.runs.evaluations import Outcome
from actfirst.runs.record import Record

_DRAWS = 10_000


class Comparison(Record):
    """The first evaluation against the second. `difference` is of success rates, in percentage points, with the 95 %
    `interval`; `better` and `worse` count tasks on which the first succeeded with more or fewer seeds; `p` is that of
    the exact two-sided test that both are equally likely. `unpaired` outcomes have no counterpart and do not count."""

    tasks: int
    pairs: int
    unpaired: int
    success_rates: tuple[float, float]
    difference: float
    interval: tuple[float, float]
    better: int
    worse: int
    p: float

    def text(self) -> str:
        low, high = self.interval
        return (
            f"{self.success_rates[0]:.1f} % against {self.success_rates[1]:.1f} %: {self.difference:+.1f} points "
            f"(95 % interval {low:+.1f} to {high:+.1f}), better on {self.better} tasks, worse on {self.worse}, of "
            f"{self.tasks}; exact paired test: p = {self.p:.3g}"
        )


def compare(first: Sequence[Outcome], second: Sequence[Outcome]) -> Comparison:
    """Compare outcomes of the same tasks and seeds."""
    ours, theirs = ({(o.task_id, o.seed): o.success for o in outcomes} for outcomes in (first, second))
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        raise ConfigError(
            "the two evaluations have no task and seed in common, so they cannot be compared in pairs; evaluate both "
            "with the same --splits, --tasks and --seeds (results of older versions keep no outcomes of tasks)"
        )
    by_task: dict[str, list[int]] = defaultdict(list)
    for key in common:
        by_task[key[0]].append(ours[key] - theirs[key])
    gains = np.array([sum(gained) for gained in by_task.values()])
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return Comparison(
        tasks=len(by_task),
        pairs=len(common),
        unpaired=len(ours.keys() ^ theirs.keys()),
        success_rates=tuple(
            100.0 * sum(found[key] for key in common) / len(common) for found in (ours, theirs)
        ),
        difference=100.0 * float(gains.sum()) / len(common),
        interval=_interval(gains, np.array([len(gained) for gained in by_task.values()])),
        better=better,
        worse=worse,
        p=sign_test(better, worse),
    )


def sign_test(better: int, worse: int) -> float:
    """Exact and two-sided: how likely is so uneven a division, or a more uneven one, of fair coins?"""
    count = better + worse
    tail = sum(comb(count, heads) for heads in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**count))


def _interval(gains: np.ndarray, seeds: np.ndarray) -> tuple[float, float]:
    """Of the mean gain per pair, in points, over tasks drawn with replacement; always the same draws."""
    drawn = np.random.default_rng(0).integers(len(gains), size=(_DRAWS, len(gains)))
    means = 100.0 * gains[drawn].sum(axis=1) / seeds[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
