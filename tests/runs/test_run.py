"""A run folder read back: the same records that were written, and those of other versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.errors import RunFolderError
from actfirst.evaluate.results import Outcome, summarise
from actfirst.records import EngineStats, Probe
from actfirst.runs.lines import (
    AlignmentCounts,
    BatchLine,
    EvaluationLine,
    LedgerCounts,
    SuccessRates,
    Summary,
    TrainerState,
    UpdateLine,
)
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import RunFolder
from tests.support.run_folders import write_run

STATS = EngineStats(1, 2, 3, 4, 5, 6, 0.5, 0, 0)
BATCH = BatchLine(
    batch=0,
    version=1,
    training_seconds=2.5,
    episodes=4,
    succeeded=1,
    failed=0,
    depth=30,
    alignment=AlignmentCounts(guided=4, first_aligned=3, turns=20),
    transitions=20,
    fast_tokens=100,
    full_responses=5,
    full_tokens=250,
    scoring_seconds=0.5,
    student_engine=STATS,
    teacher_engine=STATS,
)
UPDATE = UpdateLine(
    update=1,
    training_seconds=3.0,
    stages={"rollout": 2.0},
    ledger=LedgerCounts(generated=5, trained=4, buffered=1),
    sample_ids=("a", "b"),
    loss=float("nan"),
    reverse_kl=float("inf"),
    grad_norm=1.5,
    extra={"entropy": 0.25},
)
RESULT = summarise([Outcome("task", "seen", "look", 42, True, 100.0, 3)], 1.0).summary
EVALUATION = EvaluationLine.of("student", 1, 3.0, RESULT)


def test_what_a_run_writes_is_what_is_read(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", "[run]\nseed = 3\n") as folder:
        for line in (BATCH, UPDATE, EVALUATION):
            folder.append_metrics(line)
    run = open_run(tmp_path / "run")
    assert run.lines == (BATCH, UPDATE, EVALUATION)
    assert (run.batches, run.updates, run.curve) == ((BATCH,), (UPDATE,), (EVALUATION,))
    assert (run.seed, run.config, run.final, run.finished) == (3, {"run": {"seed": 3}}, RESULT, False)


def test_a_number_that_is_not_finite_is_none_at_once() -> None:
    assert (UPDATE.loss, UPDATE.reverse_kl, UPDATE.grad_norm) == (None, None, 1.5)


def test_every_line_begins_with_its_type() -> None:
    assert [next(iter(line.to_json())) for line in (BATCH, UPDATE, EVALUATION)] == ["type"] * 3


def test_a_summary_and_a_checkpoint_keep_evaluations_without_their_detail() -> None:
    counts = LedgerCounts()
    summary = Summary(
        title="t",
        updates=1,
        success_rate=SuccessRates(),
        training_seconds=3.0,
        seconds_by_stage={},
        ledger=counts,
        evaluations=(EVALUATION,),
    )
    state = TrainerState(
        delivered=1,
        expected_contexts=3.0,
        probe=Probe(10, 6.5),
        ledger=counts,
        offsets={},
        seconds={"evaluation": 1.0},
        elapsed=4.0,
        evaluations=(EVALUATION,),
    )
    point = {
        "who": "student",
        "update": 1,
        "training_seconds": 3.0,
        "success_rate": 100.0,
        "deviation": None,
        "tasks": 1,
    }
    assert summary.to_json()["evaluations"] == state.to_json()["evaluations"] == [point]
    assert state.training_seconds == 3.0
    assert TrainerState.model_validate(json.loads(json.dumps(state.to_json()))).probe == Probe(10, 6.5)


def test_lines_of_other_versions_are_read_or_passed_over(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", seed=1, seconds=9.0, curve=[(0, 0.0, 10.0)])  # holds unknown keys too
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps({"type": "weather", "rain": True}) + "\n")
    run = open_run(folder)
    assert len(run.lines) == 4
    assert (run.batches[0].retried, run.batches[0].student_engine) == (0, None)
    assert run.summary.evaluations == ()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="holds no run"):
        open_run(tmp_path)
