"""Learning-rate schedules beside the paper's constant one."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.learning.schedule import rate_of
from actfirst.learning.update import Learner
from tests.learning.making import learning, make_samples


def test_the_paper_has_a_constant_rate() -> None:
    """Appendix "OPD Optimization"."""
    settings = resolve("paper/alfworld-1.7b").learner
    assert {rate_of(update, settings) for update in (0, 1, 100, 249)} == {1e-6}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1, 2, 3, 3, 3, 3, 3]),
        ("linear", [1, 2, 3, 2.25, 1.5, 0.75, 0]),
        ("cosine", [1, 2, 3, 2.56066, 1.5, 0.43934, 0]),
    ],
)
def test_a_warm_up_and_a_fall(schedule: str, expected: list[float]) -> None:
    settings = learning(schedule=schedule, warmup_updates=2, schedule_updates=6, learning_rate=3.0)
    assert [rate_of(update, settings) for update in range(7)] == pytest.approx(expected, abs=1e-4)


def test_a_schedule_is_as_long_as_the_run_unless_it_says_otherwise() -> None:
    assert resolve("pocket", ["learner.schedule=cosine", "run.updates=7"]).learner.schedule_updates == 7
    given = ["learner.schedule=cosine", "run.updates=7", "learner.schedule_updates=9"]
    assert resolve("pocket", given).learner.schedule_updates == 9


def test_an_update_at_rate_zero_changes_nothing(checkpoint: Path) -> None:
    learner = Learner(checkpoint, learning(schedule="linear", schedule_updates=1, learning_rate=1e-2))
    before = {name: tensor.clone() for name, tensor in learner.export().items()}
    learner.update(make_samples(3))
    first = {name: tensor.clone() for name, tensor in learner.export().items()}
    learner.update(make_samples(3))
    assert any(not (before[name] == first[name]).all() for name in before)
    assert all((first[name] == tensor).all() for name, tensor in learner.export().items())
