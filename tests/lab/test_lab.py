"""`actfirst lab`: what it makes, in which order, what it does not make again, and what it does about failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actfirst.config.config import Config
from actfirst.config.load import dump_toml, resolve
from actfirst.errors import RunFolderError
from actfirst.evaluate.results import Outcome, summarise
from actfirst.lab import lab
from actfirst.lab.compare_runs import PlannedRun, Points, Told, plan_runs
from actfirst.lab.lab import LabPlan, all_methods, run_lab
from actfirst.runs.evaluations import Evaluation
from actfirst.runs.run import open_run
from actfirst.training import playing as evaluating
from actfirst.training.stored_state import StoredState
from tests.support.run_folders import write_run

UPDATES = 4


def outcome(success: bool, seed: int) -> Outcome:
    return Outcome("task", "seen", "look", seed, success, 100.0 * success, 3)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is trained, evaluated or measured: every call is written down instead."""
    made: list[str] = []

    def train(planned: Sequence[PlannedRun], recipe: str, progress: Told) -> None:
        (run,) = planned
        if (run.folder / "summary.json").exists():
            return
        made.append(f"train {run.folder.name}")
        config = resolve(recipe, run.overrides)
        write_run(run.folder, seed=config.run.seed, seconds=10.0, curve=[], updates=UPDATES)
        (run.folder / "config.toml").write_text(dump_toml(config))
        for update in (2, UPDATES):
            write_checkpoint(run.folder, update, 2.0 * update)

    async def evaluate(
        config: Config, model: Path, told: Callable[[int, int], None], plan: object = None
    ) -> Evaluation:
        made.append(f"evaluate {model.parent.name}/{model.name} {len(config.evaluation.seeds)}")
        return summarise([outcome(seed != 43, seed) for seed in config.evaluation.seeds], 1.0)

    def bench(name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            made.append(name)
            if name == "quality":
                made.extend(f"  {one.name}" for one in arguments[2])

        return call

    monkeypatch.setattr(lab, "make_runs", train)
    monkeypatch.setattr(lab, "evaluate_model", evaluate)
    monkeypatch.setattr(evaluating, "evaluate_model", evaluate)
    monkeypatch.setattr(lab.quality_bench, "measure", bench("quality"))
    monkeypatch.setattr(lab.experiment, "measure", bench("rollout"))
    monkeypatch.setattr(lab.experiment, "simulate", bench("simulated"))
    return made


def write_checkpoint(run: Path, update: int, seconds: float) -> None:
    """A checkpoint as far as this reads one: complete, with its training time."""
    from actfirst.runs.manifest import seal

    folder = run / "checkpoints" / f"step-{update:06d}"
    for name in ("model", "training"):
        (folder / name).mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    trainer = StoredState.start().to_json() | {"elapsed": seconds + 1.0, "seconds": {"evaluation": 1.0}}
    (folder / "training" / "state.json").write_text(json.dumps({"version": update, "trainer": trainer}))
    seal(folder)


def plan(tmp_path: Path, *methods: str, seeds: int = 2) -> LabPlan:
    return LabPlan("pocket", methods, (f"run.updates={UPDATES}",), seeds, tmp_path / "lab")


def test_all_methods_are_those_that_distil_and_the_papers_own_form_of_act_first() -> None:
    """Section 5.3: vanilla, the curricula, ActFirst-OPD and its ablations."""
    distil = ["vanilla", "tcod-f2b", "tcod-b2f", "turnopd-style", "actfirst", "actfirst-no-id"]
    distil += ["actfirst-no-fallback", "replay-50", "replay-100"]
    assert [*all_methods(resolve("paper/alfworld-0.6b", []))] == distil
    assert [*all_methods(resolve("pocket", []))] == [*distil, "actfirst:rollout.responses=all"]


def test_runs_are_interleaved_by_seed_and_evaluated_as_they_come(tmp_path: Path, calls: list[str]) -> None:
    assert run_lab(plan(tmp_path, "vanilla", "actfirst"), lambda line: None) == []
    assert calls[0] == "evaluate pocket/student 3"
    assert [call for call in calls if call.startswith("train")] == [
        "train vanilla-seed42",
        "train actfirst-seed42",
        "train actfirst-seed43",
        "train vanilla-seed43",
    ]
    # one seed on the way, three at the end
    assert calls[1:4] == [
        "train vanilla-seed42",
        "evaluate step-000002/model 1",
        "evaluate step-000004/model 3",
    ]
    assert calls[-6:] == [
        "evaluate pocket/teacher 3",
        "quality",
        "  update 2",
        "  update 4",
        "simulated",
        "rollout",
    ]


def test_runs_keep_their_checkpoints_and_do_not_evaluate_themselves(tmp_path: Path, calls: list[str]) -> None:
    run_lab(plan(tmp_path, "vanilla", seeds=1), lambda line: None)
    config = resolve(tmp_path / "lab" / "vanilla-seed42" / "config.toml")
    assert (config.checkpoint.every, config.checkpoint.keep) == (1, UPDATES)
    assert config.checkpoint.keep_at == (1, UPDATES // 2, UPDATES)  # where the paper measures rollout quality
    evaluation = config.evaluation
    assert (evaluation.at_start, evaluation.at_end, evaluation.teacher) == (False, False, False)
    assert evaluation.every == 0


def test_a_curve_begins_with_the_zero_shot_student_and_follows_the_checkpoints(
    tmp_path: Path, calls: list[str]
) -> None:
    run_lab(plan(tmp_path, "vanilla", seeds=1), lambda line: None)
    record = open_run(tmp_path / "lab" / "vanilla-seed42")
    # seed 43 fails, so three seeds give two thirds
    assert [(point.update, point.training_seconds, round(point.success_rate)) for point in record.curve] == [
        (0, 0.0, 67),
        (2, 4.0, 100),
        (4, 8.0, 67),
    ]
    assert record.final is not None
    assert record.final.by_kind["look"].success_rate.per_seed == (100.0, 0.0, 100.0)


def test_nothing_is_made_twice(tmp_path: Path, calls: list[str]) -> None:
    whole = plan(tmp_path, "vanilla", "actfirst", seeds=1)
    run_lab(whole, lambda line: None)
    open_run(tmp_path / "lab" / "actfirst-seed42").evaluation_file(2).unlink()
    calls.clear()
    run_lab(whole, lambda line: None)
    assert [call for call in calls if not call.startswith(("  ", "quality", "simulated", "rollout"))] == [
        "evaluate step-000002/model 1"
    ]


def test_points_on_the_way_are_evaluated_again_when_more_seeds_are_asked_for(
    tmp_path: Path, calls: list[str]
) -> None:
    once = plan(tmp_path, "vanilla", seeds=1)
    run_lab(once, lambda line: None)
    calls.clear()
    run_lab(replace(once, curve_seeds="42,43,44"), lambda line: None)
    assert [call for call in calls if call.startswith("evaluate")] == ["evaluate step-000002/model 3"]


def test_quality_is_measured_from_vanilla_wherever_it_stands_among_the_methods(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Path] = []
    monkeypatch.setattr(
        lab.quality_bench, "measure", lambda *given: measured.extend(one.model for one in given[2])
    )
    run_lab(plan(tmp_path, "actfirst", "vanilla", seeds=1), lambda line: None)
    assert {path.relative_to(tmp_path / "lab").parts[0] for path in measured} == {"vanilla-seed42"}


def test_a_recipe_that_names_the_points_of_its_curve_keeps_those_and_no_others() -> None:
    (run,) = plan_runs(["vanilla"], "paper/alfworld-0.6b", (), 1, Path("lab"), Points.STORED)
    checkpoint = resolve("paper/alfworld-0.6b", run.overrides).checkpoint
    assert checkpoint == resolve("paper/alfworld-0.6b").checkpoint
    assert {1, 125, 250} <= set(checkpoint.keep_at)  # paper, "Rollout Quality"


def test_a_part_that_fails_is_noted_and_the_others_are_made(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = lab.make_runs

    def failing(planned: Sequence[PlannedRun], recipe: str, progress: Told) -> None:
        if planned[0].spec.method == "vanilla":
            raise RunFolderError("no memory left")
        train(planned, recipe, progress)

    monkeypatch.setattr(lab, "make_runs", failing)
    said: list[str] = []
    failures = run_lab(plan(tmp_path, "vanilla", "actfirst", seeds=1), said.append)
    assert failures == [
        "Vanilla OPD, seed 42: no memory left",
        "rollout quality: it is measured from the checkpoints of Vanilla OPD, seed 42, which is not finished",
    ]
    assert (tmp_path / "lab" / "failures.txt").read_text().splitlines() == failures
    assert "train actfirst-seed42" in calls
    assert any(line.startswith("FAILED Vanilla") for line in said)
    monkeypatch.setattr(lab, "make_runs", train)
    assert run_lab(plan(tmp_path, "vanilla", "actfirst", seeds=1), said.append) == []
    assert not (tmp_path / "lab" / "failures.txt").exists()
