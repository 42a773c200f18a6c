"""`actfirst bench driver`: what a request costs the driver of a run on Ray, where engines answer at once.

Everything that the driver does for a request to an engine is real: routing, the call, the answer, its counters. The
engine computes nothing; it may wait, so that requests that were made together do not end together. Processor time is
that of the driver's whole process, so other work on the machine does not count. The limit is one core: so many requests
a second, and no more. Beside it, in turn, one remote call for each request, as a driver would make that has no lines
(`training/ray/line.py`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any, TypeAlias

from actfirst.config.config import Config
from actfirst.engines.base import Priority, Sampling
from actfirst.lab.spread import Spread, Told
from actfirst.records import Completion, EngineStats, StopReason
from actfirst.training.ray.calls import finished
from actfirst.training.ray.desk import Desk, Generate, Request

_ANSWER = 12
Generating: TypeAlias = Callable[[tuple[int, ...], Sampling, Priority], Awaitable[Completion]]


@dataclass(frozen=True, slots=True)
class DriverCost:
    """Processor seconds of the driver for each request, one value for each round, with so many under way at once.
    Engines wait up to `wait` seconds, evenly spread, before they answer."""

    way: str
    wait: float
    at_once: int
    prompt: int
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked for: so many requests of a prompt in each of the rounds, once for each wait of the engines and each
    number under way at once."""

    waits: tuple[float, ...]
    at_once: tuple[int, ...]
    prompt: int
    calls: int
    rounds: int


class Echo(Desk):
    """An engine's actor that computes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._wait = 0.0
        self._draws = random.Random(0)

    async def start(self) -> None: ...

    async def wait(self, seconds: float) -> None:
        """From now on wait up to so many seconds before each answer."""
        self._wait = seconds

    async def answer(self, request: Request) -> Completion:
        assert isinstance(request, Generate)
        if self._wait:
            await asyncio.sleep(self._draws.uniform(0, self._wait))
        count = request.sampling.max_tokens
        return Completion((1,) * count, (-1.0,) * count, StopReason.EOS, 0)

    async def answer_one(self, request: Request) -> tuple[Completion, EngineStats]:
        return await self.answer(request), self.stats()

    def stats(self) -> EngineStats:
        return EngineStats(1, 2, 3, 4, 5, 6, 7.0, 8, 9)


class _OneCallEach:
    """To compare with: the least that one call for each request costs, by turns to all engines."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = cycle(actors)

    async def generate(self, ids: tuple[int, ...], sampling: Sampling, priority: Priority) -> Completion:
        async with asyncio.timeout(1800.0):
            call = next(self._actors).answer_one.remote(Generate(ids, sampling, priority, 0))
            completion: Completion = (await finished(call))[0]
        return completion


def measure(config: Config, load: Load, told: Told) -> list[DriverCost]:
    """Both ways on a cluster with the engines of a recipe."""
    from actfirst.training.ray.cluster import Demands, cluster

    with cluster(config.runtime, Demands.of_players(config, config.runtime.rollout_engines)):
        return asyncio.run(_measure(config, load, told))


def rows(found: Sequence[DriverCost]) -> list[dict[str, str]]:
    return [
        {
            "requests": one.way,
            "engines wait (ms)": f"0-{1e3 * one.wait:g}" if one.wait else "0",
            "under way": str(one.at_once),
            "prompt tokens": str(one.prompt),
            "driver (ms a request)": Spread.of([1e3 * value for value in one.seconds]).text(2),
            "requests / s at most": f"{1 / Spread.of(one.seconds).median:.0f}",
        }
        for one in found
    ]


def to_json(found: Sequence[DriverCost]) -> list[dict[str, object]]:
    return [asdict(one) for one in found]


async def _measure(config: Config, load: Load, told: Told) -> list[DriverCost]:
    from actfirst.training.ray.cluster import Demands, actors
    from actfirst.training.ray.fleet import Fleet

    demand = Demands.of(config).engine
    fleet = Fleet(demand.name, demand.count, actors(Echo, demand, 1))
    await fleet.open()
    while len(fleet.actors) < demand.count:  # noqa: ASYNC110 (nothing tells)
        await asyncio.sleep(0.05)
    ways: dict[str, Generating] = {
        "one call each": _OneCallEach(fleet.actors).generate,
        "in parcels": fleet.generate,
    }
    cases = [(wait, count, way) for wait in load.waits for count in load.at_once for way in ways]
    found: dict[tuple[float, int, str], list[float]] = {case: [] for case in cases}
    ids = tuple(range(load.prompt))
    try:
        for number in range(load.rounds + 1):
            for (wait, count, way), seconds in found.items():
                await asyncio.gather(*(actor.wait.remote(wait) for actor in fleet.actors))
                begun = time.process_time()
                each = load.calls // count
                await asyncio.gather(*(_ask(ways[way], ids, each) for _ in range(count)))
                if number:  # the first round warms up
                    seconds.append((time.process_time() - begun) / (each * count))
            told(number, load.rounds, "")
    finally:
        await fleet.close()
    return [
        DriverCost(way, wait, count, load.prompt, tuple(seconds))
        for (wait, count, way), seconds in found.items()
    ]


async def _ask(generate: Generating, ids: tuple[int, ...], times: int) -> None:
    for seed in range(times):
        await generate((seed, *ids), Sampling(_ANSWER, seed=seed), Priority.FAST)
