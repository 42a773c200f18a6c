"""`actfirst sft` and `actfirst prepare` on the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from tests.cli.runner import run
from tests.support.tiny_run import overrides


@pytest.mark.parametrize(
    "recipe", ["pocket-prepare", "paper/teacher-alfworld-sft", "paper/teacher-webshop-sft"]
)
def test_a_dry_run_prints_a_recipe_that_says_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, recipe: str
) -> None:
    shown = run(capsys, "sft", recipe, "sft.steps=7", "--dry-run")
    assert shown.code == 0
    assert tomllib.loads(shown.out)["sft"]["steps"] == 7
    (tmp_path / "again.toml").write_text(shown.out)
    assert resolve(tmp_path / "again.toml") == resolve(recipe, ["sft.steps=7"])


def test_a_bad_line_is_one_error_with_file_and_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.jsonl").write_text('{"prompt": "a", "response": "b"}\n{"prompt": "a"}\n')
    shown = run(capsys, "sft", "pocket", 'sft.data=[{kind = "pairs", path = "pairs.jsonl"}]', "--run", "here")
    assert shown.code == 1
    assert "pairs.jsonl, line 2: 'response' must be a text" in shown.err
    assert not Path("here").exists()


def test_prepare_says_which_stages_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "prepare", "pocket-prepare", "--dry-run")
    assert [line.split(":")[0] for line in shown.out.splitlines()] == [
        "sft",
        "gigpo",
        "evaluate",
        "candidates",
        "references",
    ]


def test_prepare_says_why_a_stage_is_made_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    small = overrides(
        tmp_path,
        'prepare.stages=["candidates", "references"]',
        "prepare.rollouts=1",
        "prepare.tasks=1",
        "environment.turn_limit=1",
        "references.source=expert",
    )
    assert run(capsys, "prepare", "pocket", *small, "--out", str(out)).code == 0
    (out / "candidates.jsonl").unlink()
    shown = run(capsys, "prepare", "pocket", *small, "--out", str(out))
    assert "candidates: made again, because its result is gone\n" in shown.err
    assert (
        "references: made again, because candidates is made again; "
        "the old result is kept as references.jsonl.outdated-1"
    ) in shown.err
