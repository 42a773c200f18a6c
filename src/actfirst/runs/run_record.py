"""A finished run as numbers, read from its folder alone."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.errors import RunFolderError
from actfirst.lab.curves import stored_evaluations
from actfirst.runs.lines import BatchLine, EvaluationLine, read_lines, read_summary
from actfirst.lab.results import EvaluationRecord
from actfirst.rollout.alignment_counts import AlignmentCounts
from actfirst.runs.run_folder import CONFIG


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation of the student: after which update and how many seconds of training, with what success."""

    update: int
    seconds: float
    success: float


@dataclass(frozen=True)
class RunRecord:
    """What one run did and cost. Rates are percent; `alignment` sums over all delivered rollout batches.

    `final` is the student's last evaluation in detail, None where none was kept.
    """

    folder: Path
    title: str
    seed: int
    updates: int
    curve: tuple[Point, ...]
    teacher: float | None
    training_seconds: float
    stages: dict[str, float]
    scoring_seconds: float
    transitions: int
    fast_tokens: int
    full_tokens: int
    responses_generated: int
    responses_trained: int
    alignment: AlignmentCounts
    final: EvaluationRecord | None = None

    @property
    def final_success(self) -> float | None:
        return self.curve[-1].success if self.curve else None


def read_run(folder: Path) -> RunRecord:
    """The record of a finished run; an unfinished one is an error."""
    summary = read_summary(folder)
    if summary is None:
        raise RunFolderError(f"{folder} holds no finished run (no summary.json); finish it with --resume")
    lines = list(read_lines(folder))
    batches = [line for line in lines if isinstance(line, BatchLine)]
    evaluations = [line for line in lines if isinstance(line, EvaluationLine)] + stored_evaluations(folder)
    return RunRecord(
        folder=folder,
        title=summary.title,
        seed=_seed(folder),
        updates=summary.updates,
        curve=curve_of(evaluations),
        teacher=summary.success_rate.teacher,
        training_seconds=summary.training_seconds,
        stages=summary.seconds_by_stage,
        scoring_seconds=sum(line.scoring_seconds for line in batches),
        transitions=sum(line.transitions for line in batches),
        fast_tokens=sum(line.fast_tokens for line in batches),
        full_tokens=sum(line.full_tokens for line in batches),
        responses_generated=summary.ledger.generated,
        responses_trained=summary.ledger.trained,
        alignment=sum((line.alignment for line in batches), AlignmentCounts()),
        final=_final(evaluations),
    )


def curve_of(evaluations: Sequence[EvaluationLine]) -> tuple[Point, ...]:
    """The student's evaluations in order of updates; of two at one update the later counts."""
    by_update = {
        line.update: Point(line.update, line.training_seconds, line.success_rate)
        for line in evaluations
        if line.who == "student"
    }
    return tuple(by_update[update] for update in sorted(by_update))


def _final(evaluations: Sequence[EvaluationLine]) -> EvaluationRecord | None:
    """The detail of the latest update's evaluation; of two at one update the later counts."""
    ordered = sorted((line for line in evaluations if line.who == "student"), key=lambda line: line.update)
    return ordered[-1].result if ordered else None


def seconds_until(curve: Sequence[Point], target: float) -> float | None:
    """Training seconds at which success first reaches `target`, linear between evaluations; None if never."""
    for place, point in enumerate(curve):
        if point.success >= target:
            if place == 0:
                return point.seconds
            before = curve[place - 1]
            share = (target - before.success) / (point.success - before.success)
            return before.seconds + share * (point.seconds - before.seconds)
    return None


def _seed(folder: Path) -> int:
    path = folder / CONFIG
    try:
        return int(tomllib.loads(path.read_text(encoding="utf-8"))["run"]["seed"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} does not say run.seed: {error}") from error
