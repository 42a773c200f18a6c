"""The paper's Proposition 1 and "Finite-Concurrency Constraints", by numbers worked out by hand."""

from __future__ import annotations

import pytest

from actfirst.errors import ConfigError
from actfirst.lab.theory import Latencies, predict

TEN = Latencies(fast=1.0, full=10.0)


def ideal(turns: int, latencies: Latencies = TEN) -> float:
    return predict(turns, 1, None, latencies).ideal


class TestProposition:
    def test_times_of_five_turns(self) -> None:
        found = predict(5, 1, None, TEN)
        assert found.vanilla_seconds == 50.0
        assert found.actfirst_seconds == 14.0  # four fast actions, then the last full response
        assert ideal(5) == pytest.approx(50 / 14)

    def test_one_turn_gains_nothing(self) -> None:
        assert ideal(1) == 1.0

    def test_equal_latencies_gain_nothing(self) -> None:
        assert ideal(30, Latencies(2.0, 2.0)) == 1.0

    def test_it_rises_with_the_horizon_towards_the_ratio_of_latencies(self) -> None:
        speedups = [ideal(turns) for turns in (1, 2, 4, 8, 16, 30)]
        assert speedups == sorted(speedups)
        assert ideal(30) == pytest.approx(300 / 39)
        assert ideal(10**6) == pytest.approx(10.0, rel=1e-4)
        assert all(value <= min(turns, 10.0) for turns, value in zip((1, 2, 4, 8, 16, 30), speedups))

    @pytest.mark.parametrize(("fast", "full"), [(0.0, 1.0), (2.0, 1.0), (-1.0, 1.0)])
    def test_latencies_outside_the_assumptions_are_refused(self, fast: float, full: float) -> None:
        with pytest.raises(ConfigError, match="0 < fast <= full"):
            Latencies(fast, full)


class TestFiniteConcurrency:
    """16 tasks of 30 turns; fast 1, full 10: 16 * 30 * 11 = 5280 seconds of slots."""

    @pytest.mark.parametrize(
        ("cap", "seconds"), [(16, 330.0), (32, 165.0), (128, 41.25), (256, 39.0), (None, 39.0)]
    )
    def test_the_larger_of_dependency_and_concurrency_bounds_the_time(
        self, cap: int | None, seconds: float
    ) -> None:
        assert predict(30, 16, cap, TEN).least_seconds == seconds

    def test_a_cap_of_one_slot_per_task_can_only_lose(self) -> None:
        found = predict(30, 16, 16, TEN)
        # b / (N (1 + l_fast / l_full)) = 16 / 17.6
        assert found.bound == pytest.approx(16 / 17.6)
        assert not found.may_gain

    def test_the_necessary_condition_on_the_cap(self) -> None:
        assert predict(30, 16, 17, TEN).needed_cap == pytest.approx(17.6)
        assert [predict(30, 16, cap, TEN).may_gain for cap in (17, 18)] == [False, True]

    def test_the_bound_is_the_smaller_of_ideal_and_concurrency(self) -> None:
        for cap in (16, 32, 64, 128, 256):
            found = predict(30, 16, cap, TEN)
            assert found.bound == pytest.approx(min(found.ideal, cap / 17.6))

    def test_without_a_cap_it_is_the_ideal(self) -> None:
        found = predict(8, 16, None, TEN)
        assert (found.bound, found.limit) == (pytest.approx(80 / 17), 10.0)
        assert found.may_gain

    def test_nothing_is_refused_silently(self) -> None:
        with pytest.raises(ConfigError, match="at least 1"):
            predict(0, 16, 16, TEN)
