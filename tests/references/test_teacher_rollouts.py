"""Rollouts of a model as candidates (paper, appendix "Reference Trajectories": ten rollouts per training task)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from actfirst.errors import ReferenceStoreError
from actfirst.references.build.build import Plan, build_store
from actfirst.references.build.coverage import coverage
from actfirst.references.sources import Import
from actfirst.references.store import ReferenceStore
from actfirst.runs.preparation import cost_file
from actfirst.training.teacher_rollouts import TeacherRollouts
from tests.support.collecting import Bench, bench, perfect
from tests.support.scripted import Script
from tests.support.toy_world import CORRIDOR, CorridorWorld

WORLD = CorridorWorld()
TASKS = WORLD.tasks("train")[:4]


def collect(path: Path, script: Script = perfect, count: int = 3, model: str = "teacher") -> Bench:
    made = bench("vanilla", script)
    rollouts = TeacherRollouts(made.collector.player, model, count, 42, path, at_once=3)
    asyncio.run(rollouts.collect(TASKS))
    return made


def test_each_task_is_played_by_think_then_act_and_each_rollout_draws_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    made = collect(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((line["task_id"], line["rollout"]) for line in lines) == sorted(
        (task.id, number) for task in TASKS for number in range(3)
    )
    assert not any(request.is_fast for request in made.engine.requests)
    assert len({request.sampling.seed for request in made.engine.requests}) == len(made.engine.requests)


def test_a_killed_collection_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    collect(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    collect(path)
    again = path.read_bytes().splitlines(keepends=True)
    assert again[:5] == lines[:5]
    assert sorted(again) == sorted(lines)
    assert collect(path).engine.requests == []


def test_what_a_collection_cost_stands_beside_it_and_adds_up(tmp_path: Path) -> None:
    """Paper, Table "Offline preparation costs": time and candidates; and the steps that they took."""
    path = tmp_path / "rollouts.jsonl"
    for count in (1, 3):  # the second call goes on where the first one stopped
        collect(path, count=count)
    steps = sum(len(json.loads(line)["actions"]) for line in path.read_text().splitlines())
    cost = json.loads(cost_file(path).read_text())
    assert (cost["kind"], cost["stage"], cost["candidates"]) == ("preparation", "candidates", 3 * len(TASKS))
    assert cost["environment_steps"] == steps > 0
    before = cost_file(path).read_text()
    collect(path)  # everything is there
    assert cost_file(path).read_text() == before


def test_a_rollout_whose_environment_failed_is_played_again_and_one_that_the_model_failed_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rollouts.jsonl"
    collect(path, count=1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] |= {"error": "EnvironmentFailure: the simulator died", "score": 0.0, "actions": []}
    lines[2] |= {"error": "PromptTooLong: 9000 tokens", "score": 0.0, "actions": []}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    collect(path, count=1)
    again = [json.loads(line) for line in path.read_text().splitlines()]
    assert again[:4] == lines
    assert [(line["task_id"], line["error"], line["score"]) for line in again[4:]] == [
        (lines[1]["task_id"], None, 100.0)
    ]
    assert collect(path, count=1).engine.requests == []


def test_rollouts_become_references(tmp_path: Path) -> None:
    path, store = tmp_path / "rollouts.jsonl", tmp_path / "store.jsonl"
    collect(path)
    build_store(CORRIDOR, CorridorWorld, Plan((), (Import(path, "teacher:8b"),)), TASKS, store)
    found = coverage(ReferenceStore.open(store, WORLD))
    assert found.sources == {"teacher:8b": 4}


def test_rollouts_that_scored_nothing_leave_no_actions(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    collect(path, lambda request: "<think>\nhmm\n</think>\n\n<action>go west</action>", count=1)
    assert [json.loads(line)["actions"] for line in path.read_text().splitlines()] == [[]] * 4


def test_rollouts_of_two_models_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    collect(path, count=1)
    with pytest.raises(ReferenceStoreError, match="holds rollouts of teacher, not of another; move it away"):
        collect(path, model="another")
