"""Stored results as records, for whoever shows them. Only the fields that are read are named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actfirst.errors import RunFolderError
from actfirst.lab.stored import read_stored


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class QualityRow(_Record):
    """One checkpoint and strategy of `actfirst bench quality`; percentages but for yield and turns."""

    checkpoint: str
    update: int | None
    strategy: str
    tasks: int
    repeat: float | None
    per_100: float = Field(alias="yield")
    turns: float
    success: float
    valid: float


class QualityResult(_Record):
    """A result of `actfirst bench quality`."""

    recipe: str
    rows: tuple[QualityRow, ...]


class StatisticRecord(_Record):
    """A metric over evaluation seeds."""

    mean: float
    deviation: float | None
    per_seed: tuple[float, ...]


class MetricsRecord(_Record):
    """A group of evaluated tasks."""

    tasks: int
    success_rate: StatisticRecord
    score: StatisticRecord
    rounds: StatisticRecord


class EvaluationRecord(_Record):
    """An evaluated checkpoint, by split, by task type and over all."""

    overall: MetricsRecord
    by_split: dict[str, MetricsRecord]
    by_kind: dict[str, MetricsRecord]


class EvaluationResult(_Record):
    """A result of `actfirst eval`; `update` and `training_seconds` where it is a run's checkpoint."""

    checkpoint: str
    environment: str = ""
    act: str
    seeds: tuple[int, ...]
    result: EvaluationRecord
    update: int | None = None
    training_seconds: float | None = None


Record = TypeVar("Record", bound=BaseModel)


def read_quality(path: Path) -> QualityResult:
    return read_result(path, QualityResult)


def read_evaluation(path: Path) -> EvaluationResult:
    return read_result(path, EvaluationResult)


def parse(data: Mapping[str, object], kind: type[Record], where: str) -> Record:
    """A record of some data, or an error that says what does not fit."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        finding = error.errors(include_url=False)[0]
        place = ".".join(map(str, finding["loc"]))
        raise RunFolderError(f"{where} cannot be read: {place}: {finding['msg']}; make it again") from error


def read_result(path: Path, kind: type[Record]) -> Record:
    found = read_stored(path)
    if found is None:
        raise RunFolderError(f"{path} is no stored result of a measurement")
    return parse(found.data, kind, str(path))
