"""Differences between two methods, paired by training seed, with 95 % intervals.

Two things are chance: the training seed and the games that are played. `over_seeds` takes each seed's difference as one
observation (Student's t): would another training run say the same? `over_games` takes each game's difference, averaged
over seeds, as one (normal): would other games? A difference is shown where both intervals leave out zero.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby

from actfirst.runs.evaluations import Outcome
from actfirst.runs.record import Record
from actfirst.runs.run import Run

# 97.5 % quantiles of Student's t by degrees of freedom; between entries the smaller one is used, which is wider.
_DEGREES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 29)
_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.145, 2.045)
_NORMAL = 1.960


class Interval(Record):
    """From `low` to `high`, of success in points."""

    low: float
    high: float

    @property
    def leaves_out_zero(self) -> bool:
        return self.low > 0.0 or self.high < 0.0

    def text(self, digits: int = 1) -> str:
        return f"{self.low:+.{digits}f} to {self.high:+.{digits}f}"


class Difference(Record):
    """Success of one method less that of another, in points. An interval is None where it cannot be known: with one
    seed, or without stored outcomes of the same games."""

    mean: float
    per_seed: dict[int, float]
    over_seeds: Interval | None
    over_games: Interval | None

    @property
    def is_shown(self) -> bool:
        """Both intervals are known and leave out zero; otherwise it is called noise."""
        return all(one is not None and one.leaves_out_zero for one in (self.over_seeds, self.over_games))


def difference(first: Sequence[Run], second: Sequence[Run]) -> Difference | None:
    """How much better the first is, over the training seeds of both; None without an evaluated one."""
    own = {run.seed: run for run in first if run.final is not None}
    theirs = {run.seed: run for run in second if run.final is not None}
    seeds = sorted(own.keys() & theirs.keys())
    if not seeds:
        return None
    per_seed = {seed: _success(own[seed]) - _success(theirs[seed]) for seed in seeds}
    values = list(per_seed.values())
    by_game = [_by_game(own[seed], theirs[seed]) for seed in seeds]
    games = set.intersection(*(set(one) for one in by_game))
    per_game = [statistics.fmean(one[game] for one in by_game) for game in sorted(games)]
    return Difference(
        mean=statistics.fmean(values),
        per_seed=per_seed,
        over_seeds=student_interval(values),
        over_games=_interval(per_game, _NORMAL) if len(per_game) > 1 else None,
    )


def student_interval(values: Sequence[float]) -> Interval | None:
    """95 % of the mean by Student's t; None where there are not two values."""
    return _interval(values, _t(len(values) - 1)) if len(values) > 1 else None


def _success(run: Run) -> float:
    assert run.final is not None
    return run.final.overall.success_rate.mean


def _by_game(first: Run, second: Run) -> dict[str, float]:
    """The difference in points of each game that both played, over evaluation seeds."""
    own, theirs = (_rates(run.final.outcomes if run.final else ()) for run in (first, second))
    return {game: 100.0 * (own[game] - theirs[game]) for game in own.keys() & theirs.keys()}


def _rates(outcomes: Sequence[Outcome]) -> dict[str, float]:
    ordered = sorted(outcomes, key=lambda one: one.task_id)
    return {
        game: statistics.fmean(one.success for one in group)
        for game, group in groupby(ordered, key=lambda one: one.task_id)
    }


def _interval(values: Sequence[float], quantile: float) -> Interval:
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    middle = statistics.fmean(values)
    return Interval(low=middle - half, high=middle + half)


def _t(freedom: int) -> float:
    return _QUANTILES[bisect_right(_DEGREES, freedom) - 1]
