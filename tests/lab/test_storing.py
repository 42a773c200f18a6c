"""`actfirst bench storing`: which updates are stored, and what is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actfirst.lab.storing import is_stored, measure_storing
from actfirst.runs.run import open_run
from tests.support.tiny_run import tiny_config


def test_blocks_alternate_and_the_first_one_warms_up() -> None:
    assert [update for update in range(1, 13) if is_stored(update, 3)] == [4, 5, 6, 10, 11, 12]


def test_every_second_block_of_a_run_is_stored_and_its_bytes_are_counted(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, "run.updates=4", "rollout.overlap=false")
    cost = asyncio.run(measure_storing(config, tmp_path / "run", 1, lambda done, of: None))
    run = open_run(tmp_path / "run")
    assert {line.update for line in run.responses()} == {2, 4}
    assert cost.stored_responses == 16
    size = (tmp_path / "run" / "responses.jsonl").stat().st_size
    assert cost.bytes_per_response == round(size / 16)
    assert cost.episodes == sum(line.episodes for line in run.batches)
