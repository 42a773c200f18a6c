"""Differences between two methods, paired by training seed, with 95 % intervals.

Two things are chance: the training seed and the games that are played. `over_seeds` takes each seed's difference as one
observation (Student's t): would another training run say the same? `over_games` takes each game's difference, averaged
over seeds, as one (normal): would other games? A difference is shown where both intervals leave out zero.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from actfirst.runs.evaluations import Outcome
from actfirst.runs.record import Record

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


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: success in percent, over all games and at each (empty: not known)."""

    success: float
    by_game: Mapping[str, float]


class Difference(Record):
    """Success of one method less that of another, in points. An interval is None where it cannot be known: with one
    seed, or without outcomes of the same games. `games_seeds` are the seeds whose games are known."""

    mean: float
    per_seed: dict[int, float]
    over_seeds: Interval | None
    over_games: Interval | None
    games_seeds: tuple[int, ...] = ()

    @property
    def is_shown(self) -> bool:
        """Both intervals are known and leave out zero."""
        return all(one is not None and one.leaves_out_zero for one in (self.over_seeds, self.over_games))

    @property
    def verdict(self) -> str:
        """In one word; what may be chance is called noise."""
        if self.is_shown:
            return "yes"
        over_seeds = self.over_seeds is not None and self.over_seeds.leaves_out_zero
        return "over seeds" if over_seeds and self.over_games is None else "noise"


def difference(first: Mapping[int, Ended], second: Mapping[int, Ended]) -> Difference | None:
    """How much better the first is, over the training seeds of both; None without one."""
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    per_seed = {seed: first[seed].success - second[seed].success for seed in seeds}
    games = {seed: _by_game(first[seed], second[seed]) for seed in seeds}
    known = {seed: one for seed, one in games.items() if one}
    shared = sorted(set.intersection(*map(set, known.values()))) if known else []
    per_game = [statistics.fmean(one[game] for one in known.values()) for game in shared]
    return Difference(
        mean=statistics.fmean(per_seed.values()),
        per_seed=per_seed,
        over_seeds=student_interval(list(per_seed.values())),
        over_games=_interval(per_game, _NORMAL) if len(per_game) > 1 else None,
        games_seeds=tuple(known),
    )


def student_interval(values: Sequence[float]) -> Interval | None:
    """95 % of the mean by Student's t; None where there are not two values."""
    return _interval(values, _t(len(values) - 1)) if len(values) > 1 else None


def rates_by_game(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Success in percent at each game, over evaluation seeds."""
    ordered = sorted(outcomes, key=lambda one: one.task_id)
    return {
        game: 100.0 * statistics.fmean(one.success for one in group)
        for game, group in groupby(ordered, key=lambda one: one.task_id)
    }


def _by_game(first: Ended, second: Ended) -> dict[str, float]:
    """The difference in points of each game that both played."""
    return {
        game: first.by_game[game] - second.by_game[game]
        for game in first.by_game.keys() & second.by_game.keys()
    }


def _interval(values: Sequence[float], quantile: float) -> Interval:
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    middle = statistics.fmean(values)
    return Interval(low=middle - half, high=middle + half)


def _t(freedom: int) -> float:
    return _QUANTILES[bisect_right(_DEGREES, freedom) - 1]
