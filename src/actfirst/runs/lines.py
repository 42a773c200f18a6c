"""What the lines of metrics.jsonl and the file summary.json mean to whoever reads them.

Only the fields that are read here are named; a line may hold more. Nothing here computes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from actfirst.errors import RunFolderError
from actfirst.lab.results import EvaluationRecord
from actfirst.rollout.alignment_counts import AlignmentCounts
from actfirst.runs.run_folder import SUMMARY, read_metrics


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class LedgerCounts(_Record):
    """Full responses since the run began: generated = trained + discarded + buffered."""

    generated: int
    trained: int
    discarded: dict[str, int]
    buffered: int
    generated_tokens: int = 0
    trained_tokens: int = 0


class BatchLine(_Record):
    """One delivered rollout batch."""

    type: Literal["batch"] = "batch"
    batch: int
    training_seconds: float
    episodes: int
    succeeded: int
    failed: int
    alignment: AlignmentCounts
    transitions: int
    fast_tokens: int
    full_responses: int
    full_tokens: int
    scoring_seconds: float


class UpdateLine(_Record):
    """One optimiser update. A number that was not finite is None; `reverse_kl` is a figure of distillation."""

    type: Literal["update"] = "update"
    update: int
    training_seconds: float
    stages: dict[str, float]
    ledger: LedgerCounts
    loss: float | None
    grad_norm: float | None
    reverse_kl: float | None = None


class EvaluationLine(_Record):
    """One evaluation, of the student or of the teacher; `result` is all of it, by split and task type."""

    type: Literal["evaluation"] = "evaluation"
    who: Literal["student", "teacher"]
    update: int
    training_seconds: float
    success_rate: float
    deviation: float | None = None
    result: EvaluationRecord | None = None


class SuccessRates(_Record):
    """Percent; None where nobody measured."""

    before: float | None = None
    after: float | None = None
    teacher: float | None = None


class Summary(_Record):
    """The result of a finished run."""

    title: str
    updates: int
    success_rate: SuccessRates
    training_seconds: float
    seconds_by_stage: dict[str, float]
    ledger: LedgerCounts


Line = BatchLine | UpdateLine | EvaluationLine
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])
_KINDS = ("batch", "update", "evaluation")


def read_lines(folder: Path) -> Iterator[Line]:
    """The metrics of a run, also while it is writing. Lines of other kinds are passed over."""
    for number, record in enumerate(read_metrics(folder), start=1):
        if record.get("type") in _KINDS:
            yield parse_line(record, f"line {number} of {folder / 'metrics.jsonl'}")


def parse_line(record: Mapping[str, object], where: str) -> Line:
    """One line as a record."""
    try:
        return _LINE.validate_python(record)
    except ValidationError as error:
        raise RunFolderError(f"{where} cannot be read: {_first(error)}") from error


def parse_summary(record: Mapping[str, object], where: str) -> Summary:
    """A run's summary as a record."""
    try:
        return Summary.model_validate(record)
    except ValidationError as error:
        raise RunFolderError(f"{where} cannot be read: {_first(error)}") from error


def read_summary(folder: Path) -> Summary | None:
    """The summary of a run folder, None while the run is not finished."""
    path = folder / SUMMARY
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunFolderError(f"{path} is not JSON: {error}") from error
    return parse_summary(record, str(path))


def _first(error: ValidationError) -> str:
    finding = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, finding['loc']))}: {finding['msg']}"
