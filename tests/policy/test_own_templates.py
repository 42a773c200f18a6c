"""Prompt templates of one's own (`environment.templates`): found beside the recipe, checked before a run starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.config.load import dump_toml, resolve
from actfirst.environments.base import PromptOrder
from actfirst.errors import ConfigError
from actfirst.policy.render import render
from actfirst.records import Mode, Observation, TurnContext
from actfirst.rollout.stage import open_stage
from tests.cli.runner import run

FIRST_TURN = TurnContext("clean a mug", (), Observation("You are in a kitchen.", ("look", "go to sink")), 1)


@pytest.fixture
def recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A recipe beside a copy of the pocket houses' templates."""
    assert run(capsys, "envs", "templates", "pocket", str(tmp_path / "prompts")).code == 0
    file = tmp_path / "mine.toml"
    file.write_text('extends = "pocket"\n[environment]\ntemplates = "prompts"\n')
    return file


def replace_in(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(("order", "file"), [("paper", "full_no_history.txt"), ("growing", "growing/turn.txt")])
def test_prompts_are_worded_by_the_folder_beside_the_recipe(
    recipe: Path, order: PromptOrder, file: str
) -> None:
    replace_in(recipe.parent / "prompts" / file, "the ALFRED Embodied Environment", "a house")
    stage = open_stage(resolve(recipe, [f"environment.prompts={order}"]).environment)
    prompt = render(stage.templates, Mode.FULL, FIRST_TURN, 0)
    assert "operating in a house" in prompt
    assert "ALFRED" not in prompt


def test_a_resumed_run_finds_them_from_its_own_folder(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    stored = tmp_path / "run" / "config.toml"
    stored.write_text(dump_toml(resolve(recipe)))
    assert resolve(stored).environment.templates == str(tmp_path / "prompts")


def test_on_the_command_line_a_path_starts_where_the_command_is_given(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recipe.parent)
    chosen = resolve("pocket", ["environment.templates=prompts"]).environment
    assert chosen.templates == str(recipe.parent / "prompts")


@pytest.mark.parametrize(
    ("order", "file", "change", "fault"),
    [
        ("paper", "full.txt", ("{current_step}", "{step}"), r"full\.txt: there is no placeholder {step}"),
        ("paper", "full.txt", ("{current_step}", "{action_history}"), "more than once"),
        ("growing", "growing/turn.txt", ("{task_description}", "{task}"), r"turn\.txt: there is no .*{task}"),
        ("growing", "growing/turn.txt", ("{task_description}", "{step_count}"), "changes from turn to turn"),
        ("growing", "growing/turn.txt", ("[Observation", "(Observation"), "must follow {action_history}"),
        ("growing", "growing/turn.txt", ("{action_history}", ""), "lacks {action_history}"),
        ("growing", "growing/inverse_dynamics.txt", ("{reference_next_observation}", ""), "lacks {reference_"),
    ],
)
def test_a_wrong_placeholder_is_named_with_its_file_before_anything_starts(
    recipe: Path, order: str, file: str, change: tuple[str, str], fault: str
) -> None:
    replace_in(recipe.parent / "prompts" / file, *change)
    with pytest.raises(ConfigError, match=fault):
        open_stage(resolve(recipe, [f"environment.prompts={order}"]).environment)


def test_a_dry_run_says_what_is_wrong(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recipe.parent / "prompts" / "next_action.txt").unlink()
    shown = run(capsys, "train", str(recipe), "--dry-run")
    assert shown.code != 0
    assert "next_action.txt: this template of the prompts cannot be read" in shown.err.replace("\n", " ")


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="actfirst envs templates"):
        open_stage(resolve("pocket", ["environment.templates=nowhere"]).environment)
