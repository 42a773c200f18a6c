"""Two evaluations of the same tasks: the exact test and the interval by hand."""

from __future__ import annotations

import pytest

from actfirst.errors import ConfigError
from actfirst.evaluate.paired import compare, sign_test
from actfirst.runs.evaluations import Outcome


def outcomes(successes: str, seed: int = 1) -> list[Outcome]:
    """One task per letter: 1 succeeded."""
    return [
        Outcome(
            task_id=f"t{place}", split="seen", kind="pick", seed=seed, success=one == "1", score=0.0, turns=3
        )
        for place, one in enumerate(successes)
    ]


def test_the_exact_test_by_hand() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 5) == 1.0
    assert sign_test(5, 0) == pytest.approx(2 / 32)
    assert sign_test(9, 1) == sign_test(1, 9) == pytest.approx(2 * 11 / 1024)  # McNemar, b = 9, c = 1


def test_pairs_count_and_order_does_not() -> None:
    found = compare(outcomes("1111110"), outcomes("0000001")[::-1])
    assert (found.tasks, found.pairs, found.unpaired) == (7, 7, 0)
    assert (found.better, found.worse, found.p) == (6, 1, pytest.approx(2 * 8 / 128))
    assert found.success_rates == (pytest.approx(600 / 7), pytest.approx(100 / 7))
    assert found.difference == pytest.approx(500 / 7)
    assert found.interval[0] < found.difference <= found.interval[1] <= 100.0


def test_an_evaluation_does_not_differ_from_itself() -> None:
    found = compare(outcomes("1010110"), outcomes("1010110"))
    assert (found.difference, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


def test_seeds_of_one_task_are_one_witness() -> None:
    """Three seeds of one better task are no more evidence than one task."""
    first = [*outcomes("10", 1), *outcomes("10", 2), *outcomes("10", 3)]
    second = [*outcomes("00", 1), *outcomes("00", 2), *outcomes("00", 3)]
    found = compare(first, second)
    assert (found.tasks, found.pairs, found.better, found.worse, found.p) == (2, 6, 1, 0, 1.0)
    assert found.difference == 50.0


def test_the_interval_of_many_tasks_is_that_of_the_mean() -> None:
    """Of 400 pairs, 100 better and 300 equal: 25 points, standard error 100 * sqrt(0.25 * 0.75 / 400) = 2.165."""
    found = compare(outcomes("1" * 100 + "0" * 300), outcomes("0" * 400))
    assert found.interval == (
        pytest.approx(25 - 1.96 * 2.165, abs=0.4),
        pytest.approx(25 + 1.96 * 2.165, abs=0.4),
    )


def test_what_has_no_counterpart_is_counted_and_nothing_in_common_is_refused() -> None:
    assert compare(outcomes("111"), outcomes("00")).unpaired == 1
    with pytest.raises(ConfigError, match="no task and seed in common"):
        compare(outcomes("11", seed=1), outcomes("11", seed=2))
