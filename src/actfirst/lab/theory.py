"""The paper's rollout theory as functions: what acting first can gain, and what limited concurrency leaves of it.

Implements Proposition 1 (idealized speedup, its limit and bounds) and the appendix "Finite-Concurrency Constraints".
Latencies are those of single requests, prefill and decoding, in any unit. Nothing here measures anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.errors import ConfigError


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

    @property
    def ratio(self) -> float:
        return self.full / self.fast


@dataclass(frozen=True, slots=True)
class Prediction:
    """Everything the theory says of one setting.

    `bound` is that of the speedup under the cap, `least_seconds` the time that no ActFirst batch stays below.
    `may_gain` says whether the cap meets the necessary condition, which is not a sufficient one.
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


def vanilla_seconds(turns: int, latencies: Latencies) -> float:
    """T l_full: each turn waits for a full response."""
    return turns * latencies.full


def actfirst_seconds(turns: int, latencies: Latencies) -> float:
    """(T - 1) l_fast + l_full: only fast actions are waited for, and the last response at the end."""
    return (turns - 1) * latencies.fast + latencies.full


def ideal_speedup(turns: int, latencies: Latencies) -> float:
    """S_ideal(T), Proposition 1; between 1 and min(T, l_full / l_fast)."""
    return vanilla_seconds(turns, latencies) / actfirst_seconds(turns, latencies)


def finite_seconds(turns: int, tasks: int, cap: int | None, latencies: Latencies) -> float:
    """The least time that ActFirst needs for a batch: by dependency and, under a cap, by concurrency."""
    dependency = actfirst_seconds(turns, latencies)
    if cap is None:
        return dependency
    return max(dependency, tasks * turns * (latencies.fast + latencies.full) / cap)


def needed_cap(tasks: int, latencies: Latencies) -> float:
    """N (1 + l_fast / l_full): a speedup above 1 needs a cap above this, if vanilla runs at its ideal pace."""
    return tasks * (1.0 + latencies.fast / latencies.full)


def predict(turns: int, tasks: int, cap: int | None, latencies: Latencies) -> Prediction:
    """All of it for `tasks` tasks of `turns` turns; `cap` None means no limit on concurrency."""
    if turns < 1 or tasks < 1 or (cap is not None and cap < 1):
        raise ConfigError(f"turns ({turns}), tasks ({tasks}) and the cap ({cap}) must be at least 1")
    base = vanilla_seconds(turns, latencies)
    least = finite_seconds(turns, tasks, cap, latencies)
    needed = needed_cap(tasks, latencies)
    return Prediction(
        cap=cap,
        ideal=ideal_speedup(turns, latencies),
        limit=latencies.ratio,
        bound=base / least,
        vanilla_seconds=base,
        actfirst_seconds=actfirst_seconds(turns, latencies),
        least_seconds=least,
        needed_cap=needed,
        may_gain=cap is None or cap > needed,
    )
