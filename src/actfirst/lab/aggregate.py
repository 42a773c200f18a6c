"""Turns rows into a table of the paper: best and second best, ranks with ties, drops, means over settings.

Pure functions of numbers. The paper's published tables, put through them, give its averaged rows back
(tests/lab/test_paper_tables.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

Name = TypeVar("Name")


class Mark(StrEnum):
    """How a number stands among its rivals; equal numbers share a mark, as in the paper's tables."""

    BEST = "best"
    SECOND = "second"
    NONE = ""


def marks(values: Mapping[Name, float], *, digits: int, higher_is_better: bool = True) -> dict[Name, Mark]:
    """Marks of the numbers as a table shows them, that is, rounded: numbers that look equal are equal."""
    shown = {name: round(value, digits) for name, value in values.items()}
    order = sorted(set(shown.values()), reverse=higher_is_better)
    places = {value: place for place, value in enumerate(order)}
    by_place = {0: Mark.BEST, 1: Mark.SECOND}
    return {name: by_place.get(places[value], Mark.NONE) for name, value in shown.items()}


def average_ranks(values: Mapping[Name, float]) -> dict[Name, float]:
    """Ranks from 1, the highest first; equal values share the average of the ranks that they occupy."""
    ordered = sorted(values.values(), reverse=True)
    return {name: ordered.index(value) + 1 + (ordered.count(value) - 1) / 2.0 for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class AblationRow:
    """A variant over all settings: mean success, its drop from ours (points), mean time and mean success rank."""

    success: float
    drop: float
    seconds: float
    rank: float


@dataclass(frozen=True, slots=True)
class Result:
    """One method in one setting."""

    success: float
    seconds: float


def ablation(settings: Sequence[Mapping[str, Result]], ours: str) -> dict[str, AblationRow]:
    """Every method that all settings have. A setting is a student size in the paper, a training seed in a lab."""
    if not settings:
        return {}
    names = [name for name in settings[0] if all(name in setting for setting in settings)]
    if ours not in names:
        return {}
    ranks = [average_ranks({name: setting[name].success for name in names}) for setting in settings]
    success = {name: statistics.fmean(setting[name].success for setting in settings) for name in names}
    return {
        name: AblationRow(
            success=success[name],
            drop=success[ours] - success[name],
            seconds=statistics.fmean(setting[name].seconds for setting in settings),
            rank=statistics.fmean(rank[name] for rank in ranks),
        )
        for name in names
    }
