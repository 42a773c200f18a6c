"""The result of `actfirst bench rollout`: the numbers of each point, and what its file holds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from actfirst.lab.rollout.settings import RolloutSettings
from actfirst.lab.stored import BENCH_ROLLOUT, read_stored
from actfirst.runs.record import Record, parse


@dataclass(frozen=True, slots=True)
class Calibration:
    """Latencies of single requests in seconds; `full` by response length."""

    fast: float
    full: dict[int, float]


@dataclass(frozen=True, slots=True)
class RolloutPoint:
    """One point: seconds summed over all batches, one entry per repeat, and what theory says of it.

    `bound_seconds` is the least that ActFirst could take, summed over batches; `attained` is how much of the time it
    took that is, in percent. `limited` is the speedup that the bound would give over the measured vanilla time.
    `chain_seconds` and `work_seconds` are the bounds as this engine was measured to need them; `over_bound` is the time
    taken over the larger of them. `acted_first` is false where ActFirst gave way to think-then-act.
    """

    full: int
    cap: int
    turns: int
    vanilla_seconds: tuple[float, ...]
    actfirst_seconds: tuple[float, ...]
    chain_seconds: tuple[float, ...]
    work_seconds: tuple[float, ...]
    acted_first: bool
    ideal: float
    bound_seconds: float
    needed_cap: float
    speedup: float
    deviation: float | None
    attained: float
    limited: float
    over_bound: float

    @property
    def vanilla_mean(self) -> float:
        return statistics.fmean(self.vanilla_seconds)

    @property
    def actfirst_mean(self) -> float:
        return statistics.fmean(self.actfirst_seconds)

    @property
    def most(self) -> float:
        """The speedup that the measured bounds allow."""
        return self.speedup * self.over_bound

    def __str__(self) -> str:
        return f"{self.full} tokens, cap {self.cap}, {self.turns} turns: {self.speedup:.2f}x"


class RolloutResult(Record):
    """What was measured, in words that a table shows, and its points so far. `simulated` must be said wherever a
    number is. `calibration` is the mean over contexts."""

    model: str
    engine: str
    recipe: str
    simulated: bool
    prompt_tokens: float
    settings: RolloutSettings
    calibration: Calibration | None = None
    complete: bool = False
    points: tuple[RolloutPoint, ...] = ()


def read_rollout(path: Path) -> RolloutResult:
    return parse(read_stored(path, BENCH_ROLLOUT), RolloutResult, str(path))
