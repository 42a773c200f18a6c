"""`actfirst play`: a person with and without input, and a tiny random model."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.runner import run
from tests.cli.tiny_recipe import write_tiny_recipe
from tests.support.tiny_models import make_tiny_checkpoint


@pytest.fixture(autouse=True)
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(write_tiny_recipe(tmp_path))


def test_input_that_ends_at_once_is_no_error(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    shown = run(capsys, "play", recipe, "--seed", "1")
    assert shown.code == 0
    assert "your task (pocket/" in shown.out
    assert "good-bye" in shown.out


def test_a_person_plays_with_numbers_and_hints(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hint\n1\n1\n"))
    shown = run(capsys, "play", recipe, "--task", "unseen/000001")
    assert shown.code == 0
    assert "the reference would" in shown.out
    assert "not solved: 2 turns" in shown.out


@pytest.mark.parametrize(
    ("act", "way"), [("think", "think, then act"), ("direct", "next-action prediction"), ("guided", "-")]
)
def test_a_model_is_watched(
    act: str, way: str, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(make_tiny_checkpoint(tmp_path / "model"))
    shown = run(capsys, "play", recipe, "--model", model, "--seed", "3", "--act", act)
    assert shown.code == 0
    assert "turn 2" in shown.out
    assert way in shown.out
    assert "not solved: 2 turns" in shown.out


def test_an_unknown_task_is_one_message(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "play", recipe, "--task", "moon")
    assert shown.code == 2
    assert "ids look like pocket/train/000000" in shown.err


def test_settings_are_replaced_like_everywhere(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n"))
    shown = run(capsys, "play", recipe, "environment.turn_limit=1", "--task", "unseen/000001")
    assert shown.code == 0
    assert "not solved: 1 turn" in shown.out
    shown = run(capsys, "play", recipe, 'evaluation.splits=["moon"]')
    assert shown.code == 2
    assert "no split 'moon'" in shown.err
