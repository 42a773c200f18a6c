"""`actfirst compare`: from the command line to table, files and picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from actfirst.cli.lab.compare import split_arguments
from actfirst.config.load import resolve
from actfirst.lab import compare_runs
from actfirst.lab.compare_runs import PlannedRun, Told
from tests.cli.runner import run
from tests.support.run_folders import write_run


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs are written by hand instead of trained; returns the names of those that were asked for."""
    monkeypatch.chdir(tmp_path)
    names: list[str] = []

    def make(planned: Sequence[PlannedRun], recipe: str, progress: Told) -> None:
        for place, planned_run in enumerate(planned, start=1):
            names.append(planned_run.name)
            seconds = 100.0 if planned_run.spec.method == "vanilla" else 50.0
            curve = [(0, 0.0, 10.0), (8, seconds, 60.0)]
            config = resolve(recipe, planned_run.overrides)
            write_run(planned_run.folder, seed=config.run.seed, seconds=seconds, curve=curve)
            progress(planned_run, place, "update 8/8")

    monkeypatch.setattr(compare_runs, "make_runs", make)
    return names


def test_methods_and_settings_are_told_apart() -> None:
    words = ["vanilla", "run.updates=3", "actfirst:rollout.responses=all", "models.student=/a:b"]
    methods, settings = split_arguments(words)
    assert methods == ["vanilla", "actfirst:rollout.responses=all"]
    assert settings == ["run.updates=3", "models.student=/a:b"]


def test_table_files_and_picture(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(
        capsys, "compare", "vanilla", "actfirst", "run.updates=12", "--runs", "2", "--json", "result.json"
    )
    assert shown.code == 0
    assert made == [
        "Vanilla OPD, seed 42",
        "ActFirst-OPD, seed 42",
        "ActFirst-OPD, seed 43",
        "Vanilla OPD, seed 43",
    ]
    assert "2.00 ± 0.00×" in shown.out
    assert "1 of 4 runs, now ActFirst-OPD, seed 42: update 8/8" in shown.err
    folder = Path("runs/compare-pocket")
    assert "| training speedup | 1.00 ± 0.00× | 2.00 ± 0.00× |" in (folder / "compare.md").read_text()
    assert (folder / "compare.png").stat().st_size > 5000
    result = json.loads(Path("result.json").read_text())
    assert result == json.loads((folder / "compare.json").read_text())
    assert result["recipe"] == "pocket"
    assert result["overrides"] == ["run.updates=12"]
    assert result["methods"][1]["speedup"]["mean"] == 2.0


def test_an_interrupt_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(planned: Sequence[PlannedRun], recipe: str, progress: Told) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_runs, "make_runs", interrupted)
    shown = run(capsys, "compare", "vanilla", "actfirst")
    assert shown.code == 130
    assert "the same command goes on" in shown.err


def test_a_wrong_method_is_one_message(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "compare", "vanilla", "actfrist")
    assert shown.code == 2
    assert "did you mean actfirst?" in shown.err
    assert made == []


def test_settings_without_a_method_are_refused(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "compare", "run.updates=3")
    assert (shown.code, made) == (2, [])
    assert "name at least one method" in shown.err


def test_recipes_of_different_runs_go_to_different_folders(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        recipe = Path("runs") / name / "config.toml"
        recipe.parent.mkdir(parents=True)
        recipe.write_text('extends = "pocket"\n')
        assert run(capsys, "compare", "vanilla", "--runs", "1", "--recipe", str(recipe)).code == 0
        assert Path(f"runs/compare-{name}/compare.md").is_file()
