"""Reference alignment during training: windows of rollout batches, and all of them."""

from __future__ import annotations

from actfirst.lab.alignment_rates import alignment_over_updates
from actfirst.runs.lines import Line, parse_line
from tests.support.run_folders import NO_ALIGNMENT, batch, update


def counts(guided: int, first: int, full: int, aligned: int, turns: int) -> dict[str, int]:
    return dict(zip(NO_ALIGNMENT, (guided, first, full, aligned, turns), strict=True))


def lines(*records: dict[str, object]) -> list[Line]:
    return [parse_line(record, "here") for record in records]


def test_a_window_sums_counts_not_rates() -> None:
    found = alignment_over_updates(
        lines(
            batch(0, alignment=counts(4, 4, 2, 10, 20)),
            update(1, 1.0),
            batch(1, alignment=counts(12, 0, 0, 0, 80)),
            update(2, 2.0),
        )
    )
    assert [point.update for point in found.points] == [1, 2]
    assert found.points[0].rates == {"first_action": 100.0, "full_trajectory": 50.0, "turn_coverage": 50.0}
    # 4 of 16 first actions, 2 of 16 trajectories, 10 of 100 turns
    assert found.points[1].rates == {"first_action": 25.0, "full_trajectory": 12.5, "turn_coverage": 10.0}
    assert found.cumulative == found.points[1].rates


def test_the_window_forgets_older_batches_and_the_whole_does_not() -> None:
    records = [
        batch(0, alignment=counts(4, 4, 4, 4, 4)),
        *(batch(i, alignment=counts(4, 2, 0, 2, 8)) for i in (1, 2)),
    ]
    found = alignment_over_updates(lines(*records, update(1, 1.0)), window=2)
    assert found.points[0].rates == {"first_action": 50.0, "full_trajectory": 0.0, "turn_coverage": 25.0}
    # 8 of 12 first actions, 4 of 12 trajectories, 8 of 20 turns
    assert found.cumulative["turn_coverage"] == 40.0
    assert round(found.cumulative["first_action"], 2) == 66.67


def test_ten_batches_by_default() -> None:
    old = [batch(0, alignment=counts(100, 100, 100, 100, 100))]
    new = [batch(i, alignment=counts(1, 0, 0, 0, 1)) for i in range(1, 11)]
    assert alignment_over_updates(lines(*old, *new, update(1, 1.0))).points[0].rates["first_action"] == 0.0


def test_batches_after_the_last_update_do_not_count() -> None:
    first, late = batch(0, alignment=counts(2, 2, 2, 2, 2)), batch(1, alignment=counts(2, 0, 0, 0, 2))
    assert alignment_over_updates(lines(first, update(1, 1.0), late)).cumulative["first_action"] == 100.0


def test_without_guidance_there_are_no_rates() -> None:
    found = alignment_over_updates(lines(batch(0, alignment=NO_ALIGNMENT), update(1, 1.0)))
    assert (found.points[0].rates, found.cumulative) == ({}, {})
