"""What rollouts visit and teach, by stage: an episode of the demonstrator itself, written down by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.config.load import dump_toml, resolve
from actfirst.environments.registry import kind_of, open_world
from actfirst.errors import ConfigError
from actfirst.lab.stages import measure
from actfirst.records import Pair, TurnContext
from tests.support.episode_lines import episode, turn
from tests.support.run_folders import write_run

CONFIG = resolve("pocket", [])


def trained(number: int, update: int, student: float) -> dict[str, object]:
    """A response of three tokens, the last of them inserted, which the teacher finds as likely as can be."""
    streams = {"student": [student, student, -9.0], "teacher": [0.0, 0.0, -1.0], "advantages": [0.0] * 3}
    about = {"sample": f"s{number}-{update}", "episode": "b00000-000", "turn": number, "update": update}
    return {**about, "version": 0, "prompt": "", "token_texts": ["a", "b", "c"], "mask": [1, 1, 0], **streams}


def write_demonstration(folder: Path) -> list[str]:
    """A run with one episode, the demonstrator's own; returns its stages."""
    world = open_world(CONFIG.environment)
    demonstrator = kind_of(CONFIG.environment).sources.demonstrator
    assert demonstrator is not None
    task = next(one for one in world.tasks("train") if one.kind == "heat")
    environment = world.open()
    instruction, seen = environment.reset(task)
    history: tuple[Pair, ...] = ()
    stages, turns = [], []
    while not seen.done:
        shown = demonstrator(TurnContext(instruction, history, seen, len(turns) + 1))
        turns.append(turn(len(turns) + 1, action=shown.action, observation=seen.text))
        stages.append(shown.stage)
        history = (*history, Pair(seen.text, shown.action))
        seen = environment.step(shown.action)
    write_run(folder, seed=1, seconds=1.0, curve=[])
    (folder / "config.toml").write_text(dump_toml(CONFIG))
    line = episode(turns, task={"id": task.id, "split": task.split, "kind": task.kind})
    (folder / "episodes.jsonl").write_text(json.dumps(line) + "\n")
    return stages


def test_stages_are_those_of_the_demonstrator_and_distances_those_of_their_responses(tmp_path: Path) -> None:
    stages = write_demonstration(tmp_path / "run")
    placed = stages.index("place") + 1
    lines = [trained(placed, 1, -0.5), trained(placed, 9, -0.1), trained(1, 1, -0.2)]
    (tmp_path / "run" / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = {row.stage: row for row in measure(tmp_path / "run", lambda done, of, what: None)}
    assert {stage: row.turns for stage, row in rows.items()} == {one: stages.count(one) for one in set(stages)}
    assert {"search", "take", "treat", "place"} <= set(rows)
    assert sum(row.share for row in rows.values()) == pytest.approx(100.0)
    assert rows["treat"].reached == 100.0
    assert (rows["place"].early, rows["place"].late) == (pytest.approx(-0.5), pytest.approx(-0.1))
    assert (rows["search"].early, rows["search"].late) == (pytest.approx(-0.2), None)


def test_a_world_without_a_demonstrator_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run", seed=1, seconds=1.0, curve=[])
    table = "environment={name='gymnasium', id='FrozenLake-v1'}"
    config = resolve("pocket", [table, "models.student=x", "models.teacher=y", "references.source=best"])
    (tmp_path / "run" / "config.toml").write_text(dump_toml(config))
    with pytest.raises(ConfigError, match="gymnasium has no demonstrator"):
        measure(tmp_path / "run", lambda done, of, what: None)
