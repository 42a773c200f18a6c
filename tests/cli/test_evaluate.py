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


class TestAgainst:
    OPTIONS = ("--splits", "seen", "--tasks", "2")

    def test_two_result_files_are_compared_in_pairs_without_playing(
        self, model: str, recipe: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run(capsys, "eval", model, "--recipe", recipe, *self.OPTIONS, "--json", "one.json")
        one = json.loads(Path("one.json").read_text())
        outcomes, world = one["result"]["outcomes"], one["result"]["world"]
        assert [(o["split"], o["seed"], o["success"], o["turns"]) for o in outcomes] == [
            ("seen", 1, False, 2)
        ] * 2
        assert world["settings"]["name"] == world["name"] == "pocket"
        assert (world["turn_limit"], bool(world["fingerprint"]), bool(world["panel"])) == (2, True, True)
        outcomes[0]["success"] = True
        Path("two.json").write_text(json.dumps(one))
        shown = run(capsys, "eval", "two.json", "--against", "one.json", "--json", "out.json")
        assert shown.code == 0
        assert "all: 50.0 % against 0.0 %: +50.0 points" in shown.out
        assert "better on 1 tasks, worse on 0, of 2" in shown.out
        assert "episodes" not in shown.err
        against = json.loads(Path("out.json").read_text())["against"]
        assert (against["checkpoint"], against["all"]["p"], against["seen"]["tasks"]) == ("one.json", 1.0, 2)

    def test_a_checkpoint_is_played_with_the_same_settings(
        self, model: str, recipe: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shown = run(capsys, "eval", model, "--recipe", recipe, *self.OPTIONS, "--against", model)
        assert shown.code == 0
        assert "+0.0 points (95 % interval +0.0 to +0.0)" in shown.out

    def test_other_worlds_are_not_compared(
        self, model: str, recipe: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run(capsys, "eval", model, "--recipe", recipe, *self.OPTIONS, "--json", "one.json")
        other = ("environment.seed=5", *self.OPTIONS)
        shown = run(capsys, "eval", model, "--recipe", recipe, *other, "--against", "one.json")
        assert shown.code == 2
        assert "another world" in shown.err
