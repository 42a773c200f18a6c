"""`actfirst eval` on a tiny random model: the table, the JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.cli.evaluate import settings
from actfirst.config.load import resolve
from tests.cli.runner import run
from tests.cli.tiny_recipe import write_tiny_recipe
from tests.support.tiny_models import make_tiny_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_checkpoint(tmp_path_factory.mktemp("model")))


@pytest.fixture(autouse=True)
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(write_tiny_recipe(tmp_path))


def test_table_and_json_by_split_and_task_type(
    model: str, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run(capsys, "eval", model, "--recipe", recipe, "--seeds", "1,2", "--json", "out.json")
    assert shown.code == 0
    assert "split seen" in shown.out
    assert "split unseen" in shown.out
    assert "0.0 ± 0.0" in shown.out
    assert "8 of 8 episodes" in shown.err
    written = json.loads(Path("out.json").read_text())
    assert (written["act"], written["protocol"], written["seeds"]) == ("think", True, [1, 2])
    overall = written["result"]["overall"]
    assert overall["tasks"] == 4
    assert overall["success_rate"] == {"mean": 0.0, "deviation": 0.0, "per_seed": [0.0, 0.0]}
    assert overall["rounds"]["mean"] == 2.0
    assert written["result"]["errors"] == 0


@pytest.mark.parametrize("act", ["direct", "guided"])
def test_other_ways_of_acting_are_called_measurements(
    act: str, model: str, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--recipe", recipe, "--splits", "seen", "--tasks", "1", "--act", act, "--json", "out.json")
    shown = run(capsys, "eval", model, *arguments)
    assert shown.code == 0
    assert "not the protocol" in shown.err
    written = json.loads(Path("out.json").read_text())
    assert (written["act"], written["protocol"], written["splits"]) == (act, False, ["seen"])


def test_options_become_checked_settings() -> None:
    config = resolve("pocket", settings("seen, unseen", 5, "1,2,3"))
    assert config.evaluation.splits == ("seen", "unseen")
    assert (config.evaluation.tasks_per_split, config.evaluation.seeds) == (5, (1, 2, 3))
    assert settings(None, None, None) == []


def test_a_wrong_split_and_a_wrong_folder_are_one_message_each(
    model: str, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run(capsys, "eval", model, "--recipe", recipe, "--splits", "moon")
    assert shown.code == 2
    assert "no split 'moon'" in shown.err
    shown = run(capsys, "eval", "nowhere")
    assert shown.code == 2
    assert "no checkpoint there" in shown.err
