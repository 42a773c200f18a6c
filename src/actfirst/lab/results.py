"""Stored results as records, for whoever shows them. Only the fields that are read are named."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actfirst.errors import RunFolderError
from actfirst.lab.stored import read_stored


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class RolloutPoint(_Record):
    """One timed point of `actfirst bench rollout`."""

    full: int
    cap: int
    turns: int
    vanilla_seconds: tuple[float, ...]
    actfirst_seconds: tuple[float, ...]
    chain_seconds: tuple[float, ...]
    work_seconds: tuple[float, ...]
    over_bound: float
    acted_first: bool
    speedup: float
    deviation: float | None
    ideal: float
    bound_seconds: float
    attained: float
    needed_cap: float

    @property
    def vanilla_mean(self) -> float:
        return statistics.fmean(self.vanilla_seconds)

    @property
    def actfirst_mean(self) -> float:
        return statistics.fmean(self.actfirst_seconds)

    @property
    def most(self) -> float:
        """The speedup if nothing were lost against the measured bounds."""
        return self.speedup * self.over_bound


class RolloutSettings(_Record):
    """The sizes of the experiment."""

    contexts: int
    tasks: int
    fast: int
    full: tuple[int, ...]
    caps: tuple[int, ...]
    turns: int
    horizons: tuple[int, ...]
    cap: int
    repeats: int
    fast_first: bool
    optimised: bool


class RolloutResult(_Record):
    """A result of `actfirst bench rollout`."""

    model: str
    engine: str
    simulated: bool
    complete: bool
    prompt_tokens: float
    settings: RolloutSettings
    points: tuple[RolloutPoint, ...]


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


Record = TypeVar("Record", bound=_Record)


def read_rollout(path: Path) -> RolloutResult:
    return _read(path, RolloutResult)


def read_quality(path: Path) -> QualityResult:
    return _read(path, QualityResult)


def read_evaluation(path: Path) -> EvaluationResult:
    return _read(path, EvaluationResult)


def parse(data: Mapping[str, object], kind: type[Record], where: str) -> Record:
    """A record of some data, or an error that says what does not fit."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        finding = error.errors(include_url=False)[0]
        place = ".".join(map(str, finding["loc"]))
        raise RunFolderError(f"{where} cannot be read: {place}: {finding['msg']}; make it again") from error


def _read(path: Path, kind: type[Record]) -> Record:
    found = read_stored(path)
    if found is None:
        raise RunFolderError(f"{path} is no stored result of a measurement")
    return parse(found.data, kind, str(path))
