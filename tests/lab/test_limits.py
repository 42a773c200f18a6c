"""`actfirst bench limits` and `bench weight-check`: what they measure really happens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actfirst.lab.speed.limits import LIMITS
from actfirst.lab.weight_check import _cost, measure_weight_check
from tests.support.tiny_run import tiny_config


@pytest.mark.parametrize("name", LIMITS)
def test_the_work_of_a_limit_is_done_and_looked_at(name: str) -> None:
    """Each asserts that so many were written and read, or played at once."""
    LIMITS[name][1](12)


def test_every_second_block_of_updates_is_checked_and_both_kinds_are_measured(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, "run.updates=8", "learner.batch_size=2", "environment.turn_limit=2")
    told: list[int] = []
    cost = asyncio.run(measure_weight_check(config, tmp_path / "run", 2, lambda done, _: told.append(done)))
    assert told == list(range(1, 9))
    assert (cost.updates, cost.checked) == (8, 4)
    assert min(cost.cpu_with, cost.cpu_without, cost.seconds_with, cost.seconds_without) > 0


def test_what_is_begun_after_an_update_is_paid_for_in_the_next() -> None:
    """Blocks of one: updates 2, 4 and 6 begin a check, so 3, 5 and 7 are dearer."""
    ends, now = [], 0.0
    for update in range(1, 9):
        now += 3.0 if update in (3, 5, 7) else 2.0
        ends.append((now, now))
    cost = _cost(ends, 1, 3)
    assert (cost.cpu_with, cost.cpu_without, cost.ratio) == (3.0, 2.0, 1.5)
