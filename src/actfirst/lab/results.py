"""The result of `actfirst bench quality` as records."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from actfirst.lab.stored import BENCH_QUALITY, read_stored
from actfirst.runs.record import Record, parse


class FastRow(Record):
    """Fast actions of one mode: how many, which percentage could be read, and their mean tokens."""

    asked: int
    parsed: float
    tokens: float


class QualityRow(Record):
    """One checkpoint and strategy of `actfirst bench quality`; percentages but for yield, turns and tokens."""

    checkpoint: str
    update: int | None
    strategy: str
    tasks: int
    repeat: float | None
    per_100: float = Field(alias="yield")
    turns: float
    success: float
    valid: float
    parsed: float | None = None
    fast_tokens: float | None = None
    first_action: float | None = None
    full_trajectory: float | None = None
    modes: dict[str, FastRow] = Field(default_factory=dict)


class QualityResult(Record):
    """A result of `actfirst bench quality`."""

    recipe: str
    rows: tuple[QualityRow, ...]


def read_quality(path: Path) -> QualityResult:
    return parse(read_stored(path, BENCH_QUALITY), QualityResult, str(path))
