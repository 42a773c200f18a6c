"""Stored results as records, for whoever shows them. Only the fields that are read are named."""

from __future__ import annotations

import statistics
from pathlib import Path

from pydantic import Field

from actfirst.lab.stored import BENCH_QUALITY, BENCH_ROLLOUT, read_stored
from actfirst.runs.record import Record, parse


class RolloutPoint(Record):
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


class RolloutSettings(Record):
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


class RolloutResult(Record):
    """A result of `actfirst bench rollout`."""

    model: str
    engine: str
    simulated: bool
    complete: bool
    prompt_tokens: float
    settings: RolloutSettings
    points: tuple[RolloutPoint, ...]


class QualityRow(Record):
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


class QualityResult(Record):
    """A result of `actfirst bench quality`."""

    recipe: str
    rows: tuple[QualityRow, ...]


def read_rollout(path: Path) -> RolloutResult:
    return parse(read_stored(path, BENCH_ROLLOUT), RolloutResult, str(path))


def read_quality(path: Path) -> QualityResult:
    return parse(read_stored(path, BENCH_QUALITY), QualityResult, str(path))
