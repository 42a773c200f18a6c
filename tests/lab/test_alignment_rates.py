"""Reference alignment during training: windows of rollout batches."""

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
    assert list(found) == [1, 2]
    assert found[1] == {"first_action": 100.0, "full_trajectory": 50.0, "turn_coverage": 50.0}
    # 4 of 16 first actions, 2 of 16 trajectories, 10 of 100 turns
    assert found[2] == {"first_action": 25.0, "full_trajectory": 12.5, "turn_coverage": 10.0}


def test_the_window_forgets_older_batches() -> None:
    records = [
        batch(0, alignment=counts(4, 4, 4, 4, 4)),
        *(batch(i, alignment=counts(4, 2, 0, 2, 8)) for i in (1, 2)),
    ]
    found = alignment_over_updates(lines(*records, update(1, 1.0)), window=2)
    assert found[1] == {"first_action": 50.0, "full_trajectory": 0.0, "turn_coverage": 25.0}


def test_ten_batches_by_default() -> None:
    old = [batch(0, alignment=counts(100, 100, 100, 100, 100))]
    new = [batch(i, alignment=counts(1, 0, 0, 0, 1)) for i in range(1, 11)]
    assert alignment_over_updates(lines(*old, *new, update(1, 1.0)))[1]["first_action"] == 0.0


def test_without_guidance_there_are_no_rates() -> None:
    found = alignment_over_updates(lines(batch(0, alignment=NO_ALIGNMENT), update(1, 1.0)))
    assert found == {1: {}}
