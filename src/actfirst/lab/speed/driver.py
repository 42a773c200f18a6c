"""`actfirst bench driver`: what a request costs the driver of a run on Ray, where engines answer at once.

Everything that the driver does for a request to an engine is real: routing, the call, the answer, its counters. The
engine computes nothing. Processor time is that of the driver's whole process, so other work on the machine does not
count. The limit is one core: so many calls a second, and no more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from actfirst.config.config import Config
from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.lab.spread import Spread, Told
from actfirst.records import Completion, EngineStats, StopReason

_ANSWER = 12


@dataclass(frozen=True, slots=True)
class DriverCost:
    """Processor seconds of the driver for each call, one value for each round, with so many under way at once."""

    at_once: int
    prompt: int
    seconds: tuple[float, ...]


class Echo:
    """An engine's actor that answers at once."""

    async def start(self) -> None: ...

    async def generate(
        self, ids: Sequence[int], sampling: Sampling, priority: Priority, swap: int
    ) -> tuple[Completion, EngineStats]:
        count = sampling.max_tokens
        done = Completion((1,) * count, (-1.0,) * count, StopReason.EOS, 0)
        return done, EngineStats(1, 2, 3, 4, 5, 6, 7.0, 8, 9)


def measure(
    config: Config, at_once: Sequence[int], prompt: int, calls: int, rounds: int, told: Told
) -> list[DriverCost]:
    from actfirst.training.ray.cluster import Demands, cluster

    with cluster(config.runtime, Demands.of_players(config, config.runtime.rollout_engines)):
        return asyncio.run(_measure(config, at_once, prompt, calls, rounds, told))


def rows(found: Sequence[DriverCost]) -> list[dict[str, str]]:
    return [
        {
            "under way": str(one.at_once),
            "prompt tokens": str(one.prompt),
            "driver (ms a call)": Spread.of([1e3 * value for value in one.seconds]).text(2),
            "calls / s at most": f"{1 / Spread.of(one.seconds).median:.0f}",
        }
        for one in found
    ]


def to_json(found: Sequence[DriverCost]) -> list[dict[str, object]]:
    return [asdict(one) for one in found]


async def _measure(
    config: Config, at_once: Sequence[int], prompt: int, calls: int, rounds: int, told: Told
) -> list[DriverCost]:
    from actfirst.training.ray.cluster import Demands, actors
    from actfirst.training.ray.fleet import Fleet

    demand = Demands.of(config).engine
    fleet = Fleet(demand.name, demand.count, actors(Echo, demand, 1))
    await fleet.open()
    found: dict[int, list[float]] = {count: [] for count in at_once}
    ids = tuple(range(prompt))
    try:
        for number in range(rounds + 1):
            for count, seconds in found.items():
                begun = time.process_time()
                await asyncio.gather(*(_ask(fleet, ids, calls // count) for _ in range(count)))
                if number:  # the first round warms up
                    seconds.append((time.process_time() - begun) / (calls // count * count))
            told(number, rounds, "")
    finally:
        await fleet.close()
    return [DriverCost(count, prompt, tuple(seconds)) for count, seconds in found.items()]


async def _ask(engine: Engine, ids: tuple[int, ...], times: int) -> None:
    for seed in range(times):
        await engine.generate((seed, *ids), Sampling(_ANSWER, seed=seed), Priority.FAST)
