"""SR, Score and Round by hand (paper, "Evaluation Metrics" and "Evaluation Protocols")."""

from __future__ import annotations

import math

import pytest

from actfirst.evaluate.results import summarise
from actfirst.runs.evaluations import Outcome, Statistic


def outcome(task: str, seed: int, success: bool, score: float, turns: int, kind: str = "pick") -> Outcome:
    return Outcome(
        task_id=task,
        split=task.split("/", maxsplit=1)[0],
        kind=kind,
        seed=seed,
        success=success,
        score=score,
        turns=turns,
    )


OUTCOMES = [
    outcome("seen/1", 42, True, 100.0, 4),
    outcome("seen/2", 42, False, 50.0, 30, "heat"),
    outcome("unseen/1", 42, False, 0.0, 30),
    outcome("unseen/2", 42, False, 0.0, 30, "heat"),
    outcome("seen/1", 43, True, 100.0, 6),
    outcome("seen/2", 43, True, 100.0, 10, "heat"),
    outcome("unseen/1", 43, True, 100.0, 8),
    outcome("unseen/2", 43, False, 20.0, 30, "heat"),
]


def test_rates_are_per_seed_then_mean_and_sample_deviation() -> None:
    result = summarise(OUTCOMES, 1.0)
    assert result.overall.tasks == 4
    assert result.overall.success_rate.per_seed == (25.0, 75.0)
    assert result.overall.success_rate.mean == 50.0
    assert result.overall.success_rate.deviation == pytest.approx(math.sqrt(2 * 25.0**2))
    assert result.overall.score.per_seed == (37.5, 80.0)
    assert result.overall.rounds.per_seed == (23.5, 13.5)


def test_by_split_and_by_task_type() -> None:
    result = summarise(OUTCOMES, 1.0)
    assert {name: m.success_rate.mean for name, m in result.by_split.items()} == {"seen": 75.0, "unseen": 25.0}
    assert {name: m.success_rate.per_seed for name, m in result.by_kind.items()} == {
        "heat": (0.0, 50.0),
        "pick": (50.0, 100.0),
    }


def test_one_seed_has_no_deviation() -> None:
    assert Statistic.over([3.0]).deviation is None
