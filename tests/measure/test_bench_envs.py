"""What `actfirst bench envs` measures, on corridors and pocket houses. No threshold: machines differ."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path

import pytest

from actfirst.envs.base import Environment
from actfirst.measure.bench_envs import Contestant, ratio, throughput
from actfirst.records import Observation
from tests.cli.runner import run
from tests.support.toy_world import CorridorEnvironment, CorridorWorld


class SlowEnvironment(CorridorEnvironment):
    def step(self, action: str) -> Observation:
        time.sleep(0.01)
        return super().step(action)


class SlowWorld(CorridorWorld):
    def open(self) -> Environment:
        return SlowEnvironment()


def contestant(world: type[CorridorWorld]) -> Contestant:
    return Contestant(world.__name__, partial(world), tuple(CorridorWorld().tasks("train")[:4]), 8)


def test_throughput_is_that_of_all_workers_together_and_memory_that_of_one() -> None:
    one, two = (asyncio.run(throughput(contestant(SlowWorld), count, 0.6)) for count in (1, 2))
    assert (one.workers, two.workers) == (1, 2)
    assert 5 < one.steps_per_second <= 100  # a step sleeps 10 ms
    assert two.steps_per_second > one.steps_per_second
    assert one.step_ms >= 10
    assert 5 < (one.worker_megabytes or 0) < 500


def test_no_workers_means_this_process() -> None:
    found = asyncio.run(throughput(contestant(CorridorWorld), 0, 0.1))
    assert found.worker_megabytes is None
    assert found.steps_per_second > 100


def test_the_ratio_is_of_steps_in_their_own_processes() -> None:
    found = asyncio.run(ratio(contestant(CorridorWorld), contestant(SlowWorld), rounds=3, seconds=0.1))
    assert found.by_clock.median > 10  # a step sleeps 10 ms, which costs no processor time
    assert found.by_clock.least <= found.by_clock.median <= found.by_clock.most
    assert 0 < found.fast_ms.median < found.slow_ms.median < 5


def test_the_command_shows_a_table_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("actfirst.envs.alfworld.textworld_engine.PACKAGES", ("no_such_package",))
    out = tmp_path / "envs.json"
    shown = run(capsys, "bench", "envs", "pocket", "--workers", "1", "--seconds", "0.1", "--json", str(out))
    assert shown.code == 0
    assert "not compared" in shown.err
    assert "this process" in shown.out
    result = json.loads(out.read_text())
    assert result["ratio"] is None
    assert [line["workers"] for line in result["throughput"]] == [0, 1]


def test_worker_counts_must_be_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("1;2", "0,1", ""):
        shown = run(capsys, "bench", "envs", "--workers", wrong)
        assert shown.code == 2
        assert "as in 1,2,4" in shown.err
