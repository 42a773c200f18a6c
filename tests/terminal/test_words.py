"""Numbers as people read them."""

from __future__ import annotations

import pytest

from actfirst.terminal.words import clock, shares_in_words, sparkline, success_in_words


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (59.6, "1:00"), (125.0, "2:05"), (3725.0, "1:02:05"), (-3.0, "0:00")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_sparkline_spans_the_smallest_and_the_largest_of_the_latest_values() -> None:
    assert sparkline([1000.0, 0.0, 7.0, 3.5], width=3) == "▁█▅"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([]) == ""


def test_success_without_a_teacher_or_a_measurement() -> None:
    assert success_in_words(None, 50.0, None) == "- before -> 50.0 % after"
    assert success_in_words(10.0, 60.0, 80.0).endswith("75 % of the teacher's 80.0 %")


def test_small_shares_are_left_out() -> None:
    assert (
        shares_in_words({"sync": 0.1, "rollout": 90.0, "update": 9.9})
        == "rollout 1:30 (90 %), update 0:10 (10 %)"
    )
    assert shares_in_words({}) == "-"
