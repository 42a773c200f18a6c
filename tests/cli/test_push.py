"""`actfirst push`: a run's newest checkpoint goes to a scripted hub, with its recipe and a card."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from actfirst.config.load import dump_toml, resolve
from actfirst.models.folder import local_model
from actfirst.runs.manifest import seal
from tests.cli.runner import run
from tests.support.run_folders import write_run
from tests.support.scripted_hub import ScriptedHub, served


def stored_run(folder: Path) -> Path:
    write_run(folder, seed=42, seconds=9.0, curve=[(0, 0.0, 10.0), (8, 9.0, 60.0)])
    (folder / "config.toml").write_text(dump_toml(resolve("pocket")))
    step = folder / "checkpoints" / "step-000008"
    shutil.copytree(local_model("pocket:student", "model"), step / "model")
    seal(step)
    return folder


def test_the_newest_checkpoint_is_uploaded_with_recipe_and_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "run")
    with served(ScriptedHub({}), tmp_path / "cache", monkeypatch) as hub:
        shown = run(capsys, "push", str(folder), "me/student", "--private")
    assert shown.code == 0, shown.err
    assert f"{hub.address}/me/student" in shown.err + shown.out
    assert {"README.md", "recipe.toml", "config.json", "model.safetensors", "tokenizer.json"} <= set(
        hub.uploaded
    )
    (tmp_path / "again.toml").write_bytes(hub.uploaded["recipe.toml"])
    assert resolve(tmp_path / "again.toml") == resolve("pocket")
    card = hub.uploaded["README.md"].decode()
    for said in (
        "method `actfirst`",
        "8 updates",
        "pocket:teacher",
        "| 8 | 60.0 % |",
        "| generated | 20 |",
        "| name | pocket |",
    ):
        assert said in card, said


def test_a_dry_run_prints_the_card_and_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "run")
    with served(ScriptedHub({}), tmp_path / "cache", monkeypatch) as hub:
        shown = run(capsys, "push", str(folder), "me/student", "--dry-run")
    assert shown.out.startswith("---\nlibrary_name: transformers\n")
    assert hub.asked == []


def test_a_run_without_a_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", seed=1, seconds=1.0, curve=[])
    shown = run(capsys, "push", str(tmp_path / "run"), "me/student")
    assert "no complete checkpoint" in shown.err
