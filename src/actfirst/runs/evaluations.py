"""An evaluated checkpoint as numbers (paper, "Evaluation Protocols"): mean and sample standard deviation over seeds,
over all tasks, by split and by task type."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from actfirst.records import Episode
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """One evaluated episode."""

    task_id: str
    split: str
    kind: str
    seed: int
    success: bool
    score: float
    turns: int
    error: str | None = None

    @classmethod
    def of(cls, episode: Episode, seed: int) -> Outcome:
        final = episode.final
        return cls(
            task_id=episode.task.id,
            split=episode.task.split,
            kind=episode.task.kind,
            seed=seed,
            success=bool(final and final.success),
            score=final.score if final else 0.0,
            turns=len(episode.turns),
            error=episode.error,
        )


class WorldVersion(Record):
    """The world as it was evaluated. `fingerprint` is of its data and its rules, `settings` the recipe's section,
    `tasks` how many each split holds, `panel` identifies the tasks that were played."""

    name: str
    fingerprint: str
    turn_limit: int
    settings: dict[str, object]
    tasks: dict[str, int]
    panel: str

    @classmethod
    def digest(cls, task_ids: Sequence[str]) -> str:
        """Of a panel of tasks in their order."""
        return blake2b("\n".join(task_ids).encode(), digest_size=8).hexdigest()


class Evaluation(Record):
    """An evaluated checkpoint. `errors` counts episodes that were cut short; they count as they stood. Result files
    also hold the `outcomes` of all tasks and which `world` it was; the lines of a run do not."""

    overall: Metrics
    by_split: dict[str, Metrics]
    by_kind: dict[str, Metrics]
    errors: int = 0
    seconds: float = 0.0
    world: WorldVersion | None = None
    outcomes: tuple[Outcome, ...] = ()

    @property
    def summary(self) -> Evaluation:
        """The numbers alone."""
        return self.model_copy(update={"world": None, "outcomes": ()})

    def to_json(self) -> dict[str, Any]:
        empty = {name for name in ("world", "outcomes") if not getattr(self, name)}
        return {name: value for name, value in super().to_json().items() if name not in empty}


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
