"""Whole runs with random tiny models: what lands in the run folder, and that every sample is accounted for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from actfirst.config.load import resolve
from actfirst.engines.stepped import SteppedEngine
from actfirst.errors import (
    ActfirstError,
    CheckpointError,
    ConfigError,
    RolloutError,
    RunFolderError,
    TeacherError,
)
from actfirst.models.folder import resolve_model
from actfirst.models.shapes import EMBEDDING
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import read_episodes, read_metrics, saved_config
from actfirst.runs.utilisation import UtilisationLine
from actfirst.training import utilisation
from actfirst.training.open import train
from actfirst.training.watch import Watcher
from tests.support.tiny_run import tiny_config


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run) if line["type"] == kind]


@pytest.mark.parametrize(
    ("method", "responses"),
    [("vanilla", "all"), ("actfirst", "all"), ("actfirst", "admitted"), ("actfirst-no-id", "admitted")],
)
def test_a_method_runs_end_to_end_and_every_response_is_accounted_for(
    models: Path, tmp_path: Path, method: str, responses: str
) -> None:
    config = tiny_config(
        models,
        "run.updates=3",
        "environment.turn_limit=6",
        f"rollout.method={method}",
        f"rollout.responses={responses}",
    )
    summary = train(config, tmp_path / "run")
    updates = lines(tmp_path / "run", "update")
    assert [line["update"] for line in updates] == [1, 2, 3]
    trained = [sample for line in updates for sample in line["sample_ids"]]
    assert len(trained) == len(set(trained)) == 24
    for line in updates:
        ledger = line["ledger"]
        assert ledger["generated"] == ledger["trained"] + sum(ledger["discarded"].values()) + ledger["buffered"]
        assert 0 <= line["mean_lag"] <= 1
    assert summary.updates == 3
    batches = lines(tmp_path / "run", "batch")
    assert [line["batch"] for line in batches] == list(range(len(batches)))
    episodes = list(read_episodes(tmp_path / "run"))
    assert len(episodes) == 4 * len(batches)
    generated = sum(line["full_responses"] for line in batches)
    assert generated == updates[-1]["ledger"]["generated"]
    if responses == "admitted":
        # Two updates' worth per batch: one for each version for which the responses are fresh enough.
        assert generated == 16 * len(batches)
        assert generated < sum(line["transitions"] for line in batches)


def test_rollouts_and_updates_overlap_with_a_version_lag_of_at_most_one(models: Path, tmp_path: Path) -> None:
    config = tiny_config(models, "run.updates=6", "rollout.overlap=true")
    train(config, tmp_path / "run")
    updates = lines(tmp_path / "run", "update")
    lags = [line["mean_lag"] for line in updates]
    assert max(lags) > 0  # a batch was collected while the learner was busy
    assert max(line["max_lag"] for line in updates) == 1


def test_evaluations_and_summary(models: Path, tmp_path: Path) -> None:
    config = tiny_config(
        models,
        "run.updates=2",
        "evaluation.at_start=true",
        "evaluation.at_end=true",
        "evaluation.teacher=true",
        "evaluation.seeds=[42, 43]",
    )
    train(config, tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["success_rate"]) == {"before", "after", "teacher"}
    assert all(rate is not None for rate in summary["success_rate"].values())
    assert {"rollout", "update", "sync", "checkpoint", "evaluation"} <= set(summary["seconds_by_stage"])
    evaluations = lines(tmp_path / "run", "evaluation")
    assert [(line["who"], line["update"]) for line in evaluations] == [
        ("student", 0),
        ("student", 2),
        ("teacher", 2),
    ], "nobody waits for the teacher's evaluation before the first update"
    assert set(evaluations[0]["result"]["by_split"]) == {"seen"}


def test_the_same_seed_gives_the_same_tasks_and_the_same_admitted_contexts(
    models: Path, tmp_path: Path
) -> None:
    def ids(name: str, *more: str) -> list[list[str]]:
        train(tiny_config(models, "run.updates=2", "environment.turn_limit=6", *more), tmp_path / name)
        return [line["sample_ids"] for line in lines(tmp_path / name, "update")]

    first = ids("a")
    assert first == ids("b")
    assert first != ids("c", "run.seed=1")


def test_a_finished_or_foreign_folder_is_not_overwritten(models: Path, tmp_path: Path) -> None:
    config = tiny_config(models, "run.updates=1")
    train(config, tmp_path / "run")
    with pytest.raises(RunFolderError, match="--resume"):
        train(config, tmp_path / "run")


def test_a_finished_run_goes_on_if_more_updates_are_asked_for(models: Path, tmp_path: Path) -> None:
    settings = ("evaluation.at_end=true", "environment.turn_limit=6")
    train(tiny_config(models, "run.updates=5", *settings), tmp_path / "at once")
    train(tiny_config(models, "run.updates=2", *settings), tmp_path / "run")
    longer = tiny_config(models, "run.updates=5", *settings)
    summary = train(longer, tmp_path / "run", resume=True)
    assert summary.updates == 5
    trained = [[line["sample_ids"] for line in lines(tmp_path / name, "update")] for name in ("run", "at once")]
    assert trained[0] == trained[1]
    assert [line["update"] for line in lines(tmp_path / "run", "evaluation")] == [2, 5]
    assert resolve(saved_config(tmp_path / "run")) == longer, "a kill now would not shorten it again"


def test_models_that_do_not_fit_are_refused_before_anything_starts(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"models\.teacher"):
        train(tiny_config(models, "models.teacher=nowhere"), tmp_path / "a")
    with pytest.raises(ConfigError, match=r"rollout\.generation\.prompt_limit"):
        train(tiny_config(models, "rollout.generation.prompt_limit=90000"), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_yields_nothing_to_train_on_says_why_and_stops(models: Path, tmp_path: Path) -> None:
    with pytest.raises(RolloutError, match=r"3 rollout batches in a row .* PromptTooLong"):
        train(tiny_config(models, "rollout.generation.prompt_limit=60"), tmp_path / "run")


@pytest.mark.parametrize(
    "wrong", ["evaluation.splits=['elsewhere']", "references.path=nowhere.jsonl", "models.student=nowhere"]
)
def test_whatever_is_refused_leaves_no_folder_behind(models: Path, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ActfirstError):
        train(tiny_config(models, wrong), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_whose_checkpoints_are_all_broken_is_not_silently_begun_again(
    models: Path, tmp_path: Path
) -> None:
    config = tiny_config(models, "run.updates=2", "checkpoint.keep=1")
    train(config, tmp_path / "run")
    (only,) = (tmp_path / "run" / "checkpoints").iterdir()
    (only / "training" / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"no checkpoint of .* is whole"):
        train(config, tmp_path / "run", resume=True)
    assert len(lines(tmp_path / "run", "update")) == 2


def test_a_teacher_with_another_tokenizer_is_refused(models: Path, tmp_path: Path) -> None:
    config = tiny_config(models)
    other = tmp_path / "other"
    other.mkdir()
    for file in (models / "teacher").iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[10:12]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(TeacherError, match="do not share a tokenizer"):
        train(
            config.model_copy(update={"models": config.models.model_copy(update={"teacher": str(other)})}),
            tmp_path / "run",
        )


def kept(run: Path) -> list[int]:
    return [checkpoint.update for checkpoint in open_run(run).checkpoints()]


def test_checkpoints_of_named_updates_are_written_and_kept_for_good(models: Path, tmp_path: Path) -> None:
    """Paper, "Rollout Quality": the checkpoints of updates 1, 125 and 250 are looked at afterwards."""
    settings = ("checkpoint.every=2", "checkpoint.keep=1", "checkpoint.keep_at=[1, 3]")
    train(tiny_config(models, "run.updates=5", *settings), tmp_path / "run")
    assert kept(tmp_path / "run") == [1, 3, 5]


def test_checkpoints_of_named_updates_can_hold_the_model_in_bfloat16(models: Path, tmp_path: Path) -> None:
    """As a folder that engines and others load, of half the size; others do not have it."""
    settings = ("checkpoint.every=1", "checkpoint.keep=2", "checkpoint.keep_at=[1]", "checkpoint.export=true")
    train(tiny_config(models, "run.updates=2", *settings), tmp_path / "run")
    one, two = (open_run(tmp_path / "run").checkpoints()[place].path for place in (0, 1))
    exact, half = (load_file(one / name / "model.safetensors") for name in ("model", "bfloat16"))
    assert half.keys() == exact.keys()
    assert all(torch.equal(half[name], exact[name].bfloat16()) for name in exact)
    assert json.loads((one / "bfloat16" / "config.json").read_text())["dtype"] == "bfloat16"
    assert resolve_model(str(one / "bfloat16"), "models.student") == one / "bfloat16"
    assert not (two / "bfloat16").exists()


def test_the_best_evaluated_checkpoint_is_kept_beside_the_last(models: Path, tmp_path: Path) -> None:
    evaluating = ("evaluation.every=1", "evaluation.seeds=[42]", "checkpoint.every=5", "checkpoint.keep=1")
    config = tiny_config(models, "run.updates=3", *evaluating)
    train(config, tmp_path / "run")
    # Students that solve nothing are all alike: the first of them is the best.
    assert {point.success_rate for point in open_run(tmp_path / "run").curve} == {0.0}
    assert kept(tmp_path / "run") == [1, 3]
    without = tiny_config(models, "run.updates=3", *evaluating, "checkpoint.keep_best=false")
    train(without, tmp_path / "other")
    assert kept(tmp_path / "other") == [3]


def test_time_is_also_told_from_the_launch_of_the_process(models: Path, tmp_path: Path) -> None:
    """Paper, "Training Time": from training-process launch to exit; a run of two processes adds both up."""
    run = tmp_path / "run"
    first = train(tiny_config(models, "run.updates=2"), run)
    stored = open_run(run).summary
    assert stored.process_seconds == first.process_seconds > stored.training_seconds
    second = train(tiny_config(models, "run.updates=3"), run, resume=True)
    checkpoint = json.loads((run / "checkpoints" / "step-000002" / "training" / "state.json").read_text())
    assert second.process_seconds > checkpoint["trainer"]["process_seconds"] + second.training_seconds


def test_how_busy_the_machine_was_is_in_the_run_folder(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(utilisation, "pause", lambda seconds: 0.02)
    seen: list[UtilisationLine] = []

    class Looking(Watcher):
        def utilised(self, line: UtilisationLine) -> None:
            seen.append(line)

    train(tiny_config(models, "run.updates=2"), tmp_path / "run", watcher=Looking())
    stored = open_run(tmp_path / "run").utilisation
    assert len(stored) > 1
    assert [line.seconds for line in stored] == sorted(line.seconds for line in seen)[-len(stored) :]
    assert max(line.parts["engine"] + line.parts["learner"] for line in stored) > 0.0


def test_evaluations_play_with_averaged_weights_and_rollouts_with_the_newest(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[torch.Tensor] = []
    load = SteppedEngine.load_weights

    async def noted(self: SteppedEngine[Any], weights: Mapping[str, torch.Tensor], version: int) -> None:
        given.append(weights[EMBEDDING].clone())
        await load(self, weights, version)

    monkeypatch.setattr(SteppedEngine, "load_weights", noted)
    settings = ("run.updates=2", "evaluation.every=1", "evaluation.at_start=true", "learner.average=0.5")
    train(tiny_config(models, *settings, "checkpoint.every=1", "checkpoint.keep=2"), tmp_path / "run")
    stored = [
        load_file(tmp_path / "run" / "checkpoints" / f"step-{update:06d}" / part / "model.safetensors")[
            EMBEDDING
        ]
        for update in (1, 2)
        for part in ("model", "average", "model")
    ]
    assert len(given) == len(stored)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(given, stored, strict=True))
    assert not torch.equal(stored[0], stored[1])
