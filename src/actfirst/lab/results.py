"""Stored results of `actfirst bench` as records, for whoever shows them."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from actfirst.lab.rollout.run import Timing
from actfirst.lab.rollout.settings import Settings
from actfirst.lab.stored import BENCH_QUALITY, BENCH_ROLLOUT, read_stored
from actfirst.runs.record import Record, parse


class RolloutResult(Record):
    """A result of `actfirst bench rollout`."""

    model: str
    engine: str
    simulated: bool
    complete: bool
    prompt_tokens: float
    settings: Settings
    points: tuple[Timing, ...]


class QualityRow(Record):
    """One checkpoint and strategy of `actfirst bench quality`; percentages but for yield and turns."""

    checkpoint: str
    strategy: str
    tasks: int
    repeat: float | None
    per_100: float = Field(alias="yield")
    turns: float
    success: float
    valid: float


class QualityResult(Record):
    """A result of `actfirst bench quality`."""

    rows: tuple[QualityRow, ...]


def read_rollout(path: Path) -> RolloutResult:
    return parse(read_stored(path, BENCH_ROLLOUT), RolloutResult, str(path))


def read_quality(path: Path) -> QualityResult:
    return parse(read_stored(path, BENCH_QUALITY), QualityResult, str(path))
