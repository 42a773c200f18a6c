"""An evaluated checkpoint as numbers (paper, "Evaluation Protocols"): mean and sample standard deviation over seeds,
over all tasks, by split and by task type."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from actfirst.runs.record import Record


class Statistic(Record):
    """A quantity over seeds. `deviation` is the sample standard deviation, None for a single seed."""

    mean: float
    deviation: float | None
    per_seed: tuple[float, ...]

    @classmethod
    def over(cls, values: Sequence[float]) -> Statistic:
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(mean=statistics.fmean(values), deviation=deviation, per_seed=tuple(values))

    def text(self, digits: int, unit: str = "") -> str:
        """`12.3 ± 0.4`, without the deviation for a single seed."""
        spread = "" if self.deviation is None else f" ± {self.deviation:,.{digits}f}"
        return f"{self.mean:,.{digits}f}{spread}{unit}"


class Metrics(Record):
    """SR (%), Score ([0, 100]) and Round of one group of tasks."""

    tasks: int
    success_rate: Statistic
    score: Statistic
    rounds: Statistic


class Evaluation(Record):
    """An evaluated checkpoint. `errors` counts episodes that were cut short; they count as they stood."""

    overall: Metrics
    by_split: dict[str, Metrics]
    by_kind: dict[str, Metrics]
    errors: int = 0
    seconds: float = 0.0


class StoredEvaluation(Record):
    """A result file of `actfirst eval` and `actfirst lab`, without its header.

    `update` and `training_seconds` are there where it is a run's checkpoint, `who` where it is the student or the
    teacher that a lab starts from.
    """

    checkpoint: str
    environment: str = ""
    act: str
    result: Evaluation
    who: str = ""
    update: int | None = None
    training_seconds: float | None = None
