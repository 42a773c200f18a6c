"""Which model a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.errors import CheckpointError, ConfigError
from actfirst.models.folder import recipe_of, resolve_model
from actfirst.runs.manifest import seal
from actfirst.training.preflight import pin_models


def run_folder(path: Path, *steps: int) -> Path:
    """A run with complete checkpoints of these steps, and one that a kill left half-written."""
    path.mkdir()
    (path / "config.toml").touch()
    for step in steps:
        checkpoint = path / "checkpoints" / f"step-{step:06d}"
        (checkpoint / "model").mkdir(parents=True)
        (checkpoint / "model" / "config.json").write_text("{}")
        seal(checkpoint)
    (path / "checkpoints" / "step-000099").mkdir(parents=True)
    return path


def test_a_run_means_its_newest_complete_checkpoint_and_its_own_recipe(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", 3, 12)
    assert resolve_model(str(run), "--model") == run / "checkpoints" / "step-000012" / "model"
    assert recipe_of(str(run)) == run / "config.toml"


def test_a_checkpoint_of_a_run_means_its_model(tmp_path: Path) -> None:
    older = run_folder(tmp_path / "run", 3, 12) / "checkpoints" / "step-000003"
    assert resolve_model(str(older), "models.student") == older / "model"


def test_a_new_run_writes_down_which_checkpoint_of_a_run_it_begins_with(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", 3, 12)
    config = pin_models(resolve("pocket", [f"models.student={run}"]))
    assert config.models.student == str(run / "checkpoints" / "step-000012" / "model")
    assert config.models.teacher == "pocket:teacher"


def test_a_run_without_a_complete_checkpoint_says_so(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    with pytest.raises(CheckpointError, match="no complete checkpoint yet"):
        resolve_model(str(run), "--model")


def test_a_checkpoint_folder_is_itself(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert resolve_model(str(tmp_path), "--model") == tmp_path
    assert recipe_of(str(tmp_path)) is None


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--model"):
        resolve_model(str(tmp_path), "--model")


def damaged(run: Path) -> Path:
    """The newest model of a run, with one byte changed and its size kept."""
    model = run / "checkpoints" / "step-000012" / "model"
    (model / "config.json").write_text("[]")
    return model


def test_corrupt_weights_are_refused_by_whoever_opens_them(tmp_path: Path) -> None:
    """By the run's name, by the folder of the model, and as a model of a recipe."""
    run = run_folder(tmp_path / "run", 3, 12)
    model = damaged(run)
    for name in (run, model):
        with pytest.raises(CheckpointError, match=r"step-000012 is corrupt: model/config\.json .*sha256"):
            resolve_model(str(name), "--model")
    with pytest.raises(CheckpointError, match="corrupt"):
        resolve_model(str(model), "models.teacher")


def test_a_link_to_a_checkpoint_is_verified_too(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(damaged(run_folder(tmp_path / "run", 3, 12)))
    with pytest.raises(CheckpointError, match="corrupt"):
        resolve_model(str(tmp_path / "link"), "models.student")


def test_a_file_beside_the_model_is_refused(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", 12)
    (run / "checkpoints" / "step-000012" / "model" / "modeling.py").touch()
    with pytest.raises(CheckpointError, match=r"modeling\.py is not listed"):
        resolve_model(str(run / "checkpoints" / "step-000012" / "model"), "models.student")
