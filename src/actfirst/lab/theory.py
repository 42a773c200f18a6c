"""The paper's rollout theory: what acting first can gain, and how much of it limited concurrency allows.

Implements Proposition 1 (idealized speedup, its limit and bounds) and the appendix "Finite-Concurrency Constraints",
whose bounds are those of `rollout.pacing`.
Latencies are those of single requests, prefill and decoding, in any unit. Nothing here measures anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from actfirst.errors import ConfigError
from actfirst.rollout.pacing import Load


@dataclass(frozen=True, slots=True)
class Latencies:
    """Generation latencies of a fast action and of a full response: 0 < fast <= full, as the theory assumes."""

    fast: float
    full: float

    def __post_init__(self) -> None:
        if not 0 < self.fast <= self.full:
            raise ConfigError(
                f"latencies must satisfy 0 < fast <= full, but fast = {self.fast:g} and full = {self.full:g}; "
                "where an action takes longer than a response, acting first cannot help"
            )


@dataclass(frozen=True, slots=True)
class Prediction:
    """All predictions for one setting.

    Without a cap: `vanilla_seconds` is T l_full, `actfirst_seconds` (T - 1) l_fast + l_full, `ideal` the speedup of
    Proposition 1 and `limit` what it tends to. Under the cap: `least_seconds` is the least time of acting first and
    `bound` the bound of the speedup. `may_gain` says whether the cap meets the necessary condition, which is not a
    sufficient one: it must be above `needed_cap`, if vanilla runs at its ideal pace.
    """

    cap: int | None
    ideal: float
    limit: float
    bound: float
    vanilla_seconds: float
    actfirst_seconds: float
    least_seconds: float
    needed_cap: float
    may_gain: bool


def predict(turns: int, tasks: int, cap: int | None, latencies: Latencies) -> Prediction:
    """The predictions for `tasks` tasks of `turns` turns; `cap` None means no limit on concurrency."""
    if turns < 1 or tasks < 1 or (cap is not None and cap < 1):
        raise ConfigError(f"turns ({turns}), tasks ({tasks}) and the cap ({cap}) must be at least 1")
    load = Load(tasks, turns, tasks * turns, cap or math.inf, latencies.fast, latencies.full)
    vanilla = turns * latencies.full
    needed = tasks * (1.0 + latencies.fast / latencies.full)
    return Prediction(
        cap=cap,
        ideal=vanilla / load.chain,
        limit=latencies.full / latencies.fast,
        bound=vanilla / load.overlapped,
        vanilla_seconds=vanilla,
        actfirst_seconds=load.chain,
        least_seconds=load.overlapped,
        needed_cap=needed,
        may_gain=cap is None or cap > needed,
    )
