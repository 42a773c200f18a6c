"""What `actfirst bench envs` measures, on corridors and pocket houses. No threshold: machines differ."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from actfirst.environments.base import Environment
from actfirst.environments.comparing import Contestant
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.webshop.kind import walk
from actfirst.environments.webshop.world import open_webshop
from actfirst.lab.bench_envs import ratio, throughput
from actfirst.records import Observation, Task
from tests.cli.runner import run
from tests.environments.webshop import published
from tests.support.toy_world import CorridorEnvironment, CorridorWorld


class SlowEnvironment(CorridorEnvironment):
    def step(self, action: str) -> Observation:
        time.sleep(0.01)
        return super().step(action)


class SlowWorld(CorridorWorld):
    def open(self) -> Environment:
        return SlowEnvironment()


class MeetingEnvironment(CorridorEnvironment):
    """Begins its first task when four of them are in the process."""

    _four = threading.Barrier(4)

    def __init__(self) -> None:
        super().__init__()
        self._met = False

    def reset(self, task: Task) -> tuple[str, Observation]:
        if not self._met:
            self._four.wait()
            self._met = True
        return super().reset(task)


class MeetingWorld(CorridorWorld):
    def open(self) -> Environment:
        return MeetingEnvironment()


def contestant(world: type[CorridorWorld]) -> Contestant:
    return Contestant(world.__name__, partial(world), tuple(CorridorWorld().tasks("train")[:4]), 8)


def played(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    """The lines that the command writes, by the environment's name."""
    call = ("bench", "envs", *arguments, "--worker-counts", "1", "--seconds", "0.1", "--json", str(out))
    shown = run(capsys, *call)
    assert shown.code == 0, shown.err
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in json.loads(out.read_text())["throughput"]:
        lines.setdefault(line["name"], []).append(line)
    return lines


def test_throughput_is_that_of_all_workers_together_and_memory_that_of_one() -> None:
    one, two = (asyncio.run(throughput(contestant(SlowWorld), count, 0.6)) for count in (1, 2))
    assert (one.workers, two.workers) == (1, 2)
    assert one.step_ms >= 10  # a step sleeps 10 ms
    # Environments that are busy stepping: at most as many as there are, and more than one of two workers.
    assert 0 < one.steps_per_second * one.step_ms / 1e3 <= 1
    assert 1 < two.steps_per_second * two.step_ms / 1e3 <= 2
    assert 5 < (one.worker_megabytes or 0) < 500


def test_a_worker_plays_as_many_environments_at_once_as_it_is_told() -> None:
    found = asyncio.run(throughput(replace(contestant(MeetingWorld), per_worker=4), 2, 0.1))
    assert (found.workers, found.per_worker) == (2, 4)


def test_in_this_process_one_environment_is_measured_for_all() -> None:
    found = asyncio.run(throughput(replace(contestant(CorridorWorld), per_worker=4), 0, 0.1))
    assert (found.workers, found.per_worker) == (0, 1)


def test_a_random_walk_leaves_the_first_page_of_a_shop() -> None:
    world, rng = open_webshop(nouns="simple"), random.Random(0)
    environment, pages = world.open(), set()
    for task in world.tasks("train")[:4]:
        instruction, seen = environment.reset(task)
        for _ in range(world.turn_limit):
            action = walk(rng, instruction, seen)
            if seen.templates:
                assert set(action.removeprefix("search[").removesuffix("]").split()) <= set(instruction.split())
            else:
                assert action in seen.admissible
            seen = environment.step(action)
            pages.add(seen.text)
            if seen.done:
                break
    assert len(pages) > 12


def test_no_workers_means_this_process() -> None:
    found = asyncio.run(throughput(contestant(CorridorWorld), 0, 0.1))
    assert found.worker_megabytes is None
    assert found.steps_per_second > 0


def test_the_ratio_is_of_steps_in_their_own_processes() -> None:
    found = asyncio.run(ratio(contestant(CorridorWorld), contestant(SlowWorld), rounds=3, seconds=0.1))
    assert found.by_clock.median > found.by_processor.median  # a step sleeps 10 ms: no processor time
    assert found.by_clock.least <= found.by_clock.median <= found.by_clock.most
    assert 0 < found.fast_ms.median < found.slow_ms.median < 10


@pytest.fixture
def no_textworld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actfirst.environments.alfworld.textworld_engine.PACKAGES", ("no_such_package",))


@pytest.mark.usefixtures("no_textworld")
class TestTheCommand:
    def test_it_shows_a_table_and_writes_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "envs.json"
        shown = run(
            capsys, "bench", "envs", "pocket", "--worker-counts", "1", "--seconds", "0.1", "--json", str(out)
        )
        assert shown.code == 0
        assert "not compared" in shown.err
        assert "each plays" in shown.out
        assert "this process" in shown.out
        result = json.loads(out.read_text())
        assert result["ratio"] is None
        assert [(line["workers"], line["per_worker"]) for line in result["throughput"]] == [(0, 1), (1, 16)]

    def test_by_default_every_world_that_needs_no_data_is_measured(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("actfirst.environments.scienceworld.java.find_spec", lambda name: None)
        out = tmp_path / "out.json"
        shown = run(capsys, "bench", "envs", "--worker-counts", "1", "--seconds", "0.1", "--json", str(out))
        names = [line["name"] for line in json.loads(out.read_text())["throughput"]]
        assert names == ["pocket", "pocket", "webshop-sample", "webshop-sample"]
        assert "scienceworld is not measured" in shown.err
        assert "pip install 'actfirst[scienceworld]'" in shown.err

    def test_games_are_measured_without_textworld_too(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        world = PocketWorld(train=1)
        world.write(world.tasks("train")[0], tmp_path / "games" / "one")
        lines = played(capsys, tmp_path / "out.json", "pocket", "--folder", str(tmp_path / "games"))
        assert [line["workers"] for line in lines["ALFWorld, native"]] == [0, 1]

    @pytest.mark.slow
    @pytest.mark.skipif(not published.present(), reason=published.ABSENT)
    def test_a_folder_of_products_is_measured_beside_the_sample(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = f"environment.folder={published.FOLDER}"
        lines = played(capsys, tmp_path / "out.json", "webshop-sample", "webshop-sample", folder)
        assert set(lines) == {"webshop-sample", f"webshop-sample {folder}"}

    @pytest.mark.slow
    @pytest.mark.skipif(find_spec("scienceworld") is None, reason="the extra scienceworld is not installed")
    def test_four_games_of_scienceworld_share_a_process(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (line,) = played(capsys, tmp_path / "out.json", "scienceworld-small")["scienceworld-small"]
        assert (line["workers"], line["per_worker"]) == (1, 4)
        assert line["worker_megabytes"] > 100


def test_worker_counts_must_be_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("1;2", "0,1", ""):
        shown = run(capsys, "bench", "envs", "--worker-counts", wrong)
        assert shown.code == 2
        assert "as in 1,2,4" in shown.err
