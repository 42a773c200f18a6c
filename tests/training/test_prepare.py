"""`actfirst prepare`: stages in order, each from the model before it; what is finished is not made again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.config.teacher_sections import StageName
from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab.report.cost_table import cost_table
from actfirst.lab.report.sources import find_sources
from actfirst.models.folder import read_config, resolve_model
from actfirst.runs import preparation
from actfirst.runs.run_folder import read_episodes
from actfirst.training.prepare import PrepareWatcher, StageRecord, prepare
from tests.support.tiny_models import make_tiny_checkpoint
from tests.support.tiny_run import overrides

STAGES = ["sft", "gigpo", "evaluate", "candidates", "references"]


class Noted(PrepareWatcher):
    def __init__(self) -> None:
        self.ran: list[str] = []
        self.skips: list[str] = []
        self.models: dict[str, Path] = {}
        self.reasons: dict[str, str] = {}
        self.kept: dict[str, str | None] = {}

    def began(self, name: StageName, model: Path) -> None:
        self.ran.append(name)
        self.models[name] = model

    def again(self, name: StageName, reason: str, kept: Path | None) -> None:
        self.reasons[name] = reason
        self.kept[name] = kept and kept.name

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
    assert [stage.name for stage in prepare("pocket", asked, out, third).stages] == STAGES[2:]
    assert third.ran == ["evaluate"]
    assert third.reasons == {"evaluate": "its result is gone"}
    (out / "candidates.jsonl").unlink()
    fourth = Noted()
    again = prepare("pocket", asked, out, fourth)
    assert fourth.ran == ["candidates", "references"]
    assert fourth.reasons == {"candidates": "its result is gone", "references": "candidates is made again"}
    assert fourth.kept == {"candidates": None, "references": "references.jsonl.outdated-1"}
    assert again.stages[1].gave["candidates"] == 2  # those of the new file alone
    costs = [preparation.read(out / name) for name in ("candidates.jsonl", "references.jsonl")]
    assert [(cost.stage, cost.candidates) for cost in costs if cost] == [("candidates", 2), ("references", 2)]


def test_a_stage_is_made_again_when_the_model_before_it_has_changed(tmp_path: Path) -> None:
    model, out, first = tmp_path / "model", tmp_path / "out", Noted()
    asked = [*tiny(tmp_path, ["evaluate", "candidates"]), f"prepare.start={model}"]
    make_tiny_checkpoint(model, seed=1)
    before = prepare("pocket", asked, out)
    shutil.rmtree(model)
    make_tiny_checkpoint(model, seed=2)
    after = prepare("pocket", asked, out, first)
    assert first.ran == ["evaluate", "candidates"]
    assert first.reasons == dict.fromkeys(first.ran, "the model before it has changed")
    assert first.kept["candidates"] == "candidates.jsonl.outdated-1"
    assert [one.built_on for one in before.stages] != [one.built_on for one in after.stages]
    second = Noted()
    prepare("pocket", asked, out, second)
    assert (second.ran, second.reasons) == ([], {})


def test_a_stopped_stage_goes_on_only_with_the_model_that_it_began_with(tmp_path: Path) -> None:
    class Stopping(Noted):
        def progress(self, done: int, of: int) -> None:
            if done == 1:
                raise KeyboardInterrupt

    model, out = tmp_path / "model", tmp_path / "out"
    asked = [
        *tiny(tmp_path, ["candidates"]),
        f"prepare.start={model}",
        "evaluation.batch_tasks=1",
        "evaluation.runners=1",
    ]
    make_tiny_checkpoint(model, seed=1)
    with pytest.raises(KeyboardInterrupt):
        prepare("pocket", asked, out, Stopping())
    assert "| stopped |" in (out / "prepare.md").read_text()
    same = shutil.copytree(out, tmp_path / "same")
    assert prepare("pocket", asked, same).stages[0].gave["candidates"] == 2
    assert len((same / "candidates.jsonl").read_text().splitlines()) == 2
    shutil.rmtree(model)
    make_tiny_checkpoint(model, seed=2)
    other = Noted()
    prepare("pocket", asked, out, other)
    assert other.kept == {"candidates": "candidates.jsonl.outdated-1"}
    assert len((out / "candidates.jsonl").read_text().splitlines()) == 2


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


def test_runs_leave_their_row_of_the_cost_table_and_what_was_built_on_one_that_is_gone_is_made_again(
    tmp_path: Path,
) -> None:
    stages = ["sft", "gigpo", "evaluate"]
    asked, out, first = tiny(tmp_path, stages), tmp_path / "out", Noted()
    prepare("pocket", asked, out, first)
    assert first.models["gigpo"].is_relative_to(out / "sft")
    costs = dict(find_sources([out]).preparations)
    assert sorted(path.name for path in costs) == ["gigpo.cost.json", "sft.cost.json"]
    fine_tuned, rewarded = costs[out / "sft.cost.json"], costs[out / "gigpo.cost.json"]
    assert (fine_tuned.stage, fine_tuned.model, fine_tuned.updates) == ("sft", "start", 2)
    assert (rewarded.stage, rewarded.model, rewarded.updates) == ("gigpo", "sft", 1)
    played = sum(len(line["turns"]) for line in read_episodes(out / "gigpo"))
    assert (fine_tuned.environment_steps, rewarded.environment_steps) == (0, played)
    assert fine_tuned.seconds > 0
    table = cost_table(list(costs.items()))
    assert table is not None
    assert [cell.text for cell in table.rows[0]][2:4] == ["2", "1"]

    shutil.rmtree(out / "sft")
    again = Noted()
    prepare("pocket", asked, out, again)
    assert again.ran == stages
    assert again.reasons["sft"] == "its result is gone"
    assert [again.reasons[name] for name in stages[1:]] == ["sft is made again"] * 2
    assert again.kept == {"sft": None, "gigpo": "gigpo.outdated-1", "evaluate": "evaluation.json.outdated-1"}
    assert (out / "gigpo.outdated-1" / "summary.json").is_file()
    repeated = preparation.read(out / "gigpo")
    assert repeated is not None
    assert repeated.updates == 1  # of the run that is there


@pytest.mark.slow
def test_from_random_weights_to_references(tmp_path: Path) -> None:
    asked, out, first = tiny(tmp_path, STAGES), tmp_path / "out", Noted()
    record = prepare("pocket", asked, out, first)
    assert first.ran == STAGES
    assert first.models["sft"] == out / "start"
    assert all(first.models[name].is_relative_to(out / "gigpo") for name in STAGES[2:])
    assert record.stages[0].gave["steps"] == 2
    shutil.rmtree(out / "gigpo")
    again = Noted()
    prepare("pocket", asked, out, again)
    assert again.skips == ["sft"]
    assert again.ran == STAGES[1:]


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
    assert config.prepare.stages == tuple(STAGES)
    (data,) = config.sft.data
    if "alfworld" in recipe:
        assert data.success  # "SFT on successful trajectories from the GiGPO-Qwen2.5-7B model"
    else:
        assert data.least_score > 0  # "score-filtered SFT"


def test_the_paper_s_scienceworld_teacher_is_trained_with_gigpo_alone() -> None:
    """Appendix "Teacher Training and Reference Construction"; Table "Offline preparation costs": 144 steps."""
    config = resolve("paper/teacher-scienceworld-gigpo")
    assert config.prepare.stages == tuple(STAGES[1:])
    assert (config.prepare.start, config.run.updates, config.prepare.rollouts) == ("Qwen/Qwen3-8B", 144, 10)
