"""`actfirst prepare`: stages in order, each from the model before it; what is finished is not made again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.config.teacher_sections import StageName
from actfirst.errors import ConfigError, RunFolderError
from actfirst.models.folder import read_config, resolve_model
from actfirst.training.prepare import PrepareWatcher, StageRecord, prepare
from tests.support.tiny_run import overrides

STAGES = ["sft", "gigpo", "evaluate", "candidates", "references"]


class Noted(PrepareWatcher):
    def __init__(self) -> None:
        self.ran: list[str] = []
        self.skips: list[str] = []
        self.models: dict[str, Path] = {}

    def began(self, name: StageName, model: Path) -> None:
        self.ran.append(name)
        self.models[name] = model

    def skipped(self, stage: StageRecord) -> None:
        self.skips.append(stage.name)


def tiny(folder: Path, stages: list[str], *more: str) -> list[str]:
    return overrides(
        folder,
        f"prepare.stages={json.dumps(stages)}",
        f"prepare.start=new:{folder / 'student'}",
        'prepare.gigpo=["rollout.method=vanilla", "run.updates=1"]',
        "prepare.rollouts=1",
        "prepare.tasks=2",
        'sft.data=[{kind = "demonstrator", tasks = 2, success = false}]',
        "sft.steps=2",
        "sft.batch_size=2",
        "sft.held_out=0.0",
        "references.source=expert",
        "evaluation.tasks_per_split=1",
        "environment.turn_limit=2",
        *more,
    )


def test_the_files_alone_are_made_from_the_start_model_and_skipped_the_second_time(tmp_path: Path) -> None:
    asked, out, first, second = tiny(tmp_path, STAGES[2:]), tmp_path / "out", Noted(), Noted()
    record = prepare("pocket", asked, out, first)
    assert first.ran == [stage.name for stage in record.stages] == STAGES[2:]
    assert prepare("pocket", asked, out, second) == record
    assert (second.ran, second.skips) == ([], STAGES[2:])
    gave = {stage.name: stage.gave for stage in record.stages}
    assert gave["candidates"]["candidates"] == 2
    assert gave["candidates"]["environment_steps"] == 4
    assert gave["references"]["tasks"] == 2
    page = (out / "prepare.md").read_text()
    assert all(f"| {name} |" in page for name in STAGES[2:])
    (out / "evaluation.json").unlink()
    third = Noted()
    prepare("pocket", asked, out, third)
    assert third.ran == ["evaluate"]


def test_new_weights_have_the_shape_and_the_tokenizer_of_the_model_that_is_named(tmp_path: Path) -> None:
    prepare("pocket", tiny(tmp_path, ["evaluate"]), tmp_path / "out")
    made, source = tmp_path / "out" / "start", tmp_path / "student"
    assert (made / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert read_config(made)["hidden_size"] == read_config(source)["hidden_size"]
    assert (made / "model.safetensors").read_bytes() != (source / "model.safetensors").read_bytes()
    assert resolve_model(str(made), "models.student") == made


def test_a_folder_of_other_settings_is_refused_and_so_is_a_recipe_without_stages(tmp_path: Path) -> None:
    prepare("pocket", tiny(tmp_path, ["evaluate"]), tmp_path / "out")
    with pytest.raises(RunFolderError, match="was prepared with other settings"):
        prepare("pocket", tiny(tmp_path, ["evaluate"], "run.seed=1"), tmp_path / "out")
    with pytest.raises(ConfigError, match=r"set prepare\.stages"):
        prepare("pocket", [], tmp_path / "other")


@pytest.mark.slow
def test_from_random_weights_to_references(tmp_path: Path) -> None:
    asked, out, first = tiny(tmp_path, STAGES), tmp_path / "out", Noted()
    record = prepare("pocket", asked, out, first)
    assert first.ran == STAGES
    assert first.models["sft"] == out / "start"
    assert first.models["gigpo"].is_relative_to(out / "sft")
    assert all(first.models[name].is_relative_to(out / "gigpo") for name in STAGES[2:])
    # A run that is gone is made again, from what is still there.
    shutil.rmtree(out / "gigpo")
    again = Noted()
    prepare("pocket", asked, out, again)
    assert again.ran == ["gigpo"]
    assert record.stages[0].gave["steps"] == 2


@pytest.mark.parametrize(
    ("recipe", "steps", "gigpo"),
    [("paper/teacher-alfworld-sft", 250, 250), ("paper/teacher-webshop-sft", 250, 2200)],
)
def test_the_paper_s_teachers(recipe: str, steps: int, gigpo: int) -> None:
    """Appendix "Teacher Training and Reference Construction" and Table "Offline preparation costs"."""
    config = resolve(recipe)
    assert config.models.student == config.prepare.start == "Qwen/Qwen3-8B"
    assert config.sft.steps == steps
    assert resolve(config.prepare.gigpo_recipe, ["models.teacher=x"]).run.updates == gigpo
    assert config.prepare.rollouts == 10  # "Ten candidates are generated per task for each source model"
    (data,) = config.sft.data
    if "alfworld" in recipe:
        assert data.success  # "SFT on successful trajectories from the GiGPO-Qwen2.5-7B model"
    else:
        assert data.least_score > 0  # "score-filtered SFT"
