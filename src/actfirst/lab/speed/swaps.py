"""`actfirst bench sync`, second table: what new weights cost while full responses are under way, by `engine.swap`.

In each round some full responses are half done when new weights are handed to the engine, and a fast request is made at
the same moment. Each way of swapping has an engine of its own; the ways alternate round by round. The first round warms
up and is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, get_args

from actfirst.config.config import Config
from actfirst.config.engine_sections import Swap
from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.engines.open import open_engine
from actfirst.errors import EngineError
from actfirst.lab.spread import Spread, Told, ratios
from actfirst.models.files import read_weights
from actfirst.models.folder import resolve_model

if TYPE_CHECKING:
    import torch

_PROMPT = tuple(range(5, 205))


@dataclass
class SwapTiming:
    """Seconds of each round since the weights were handed over.

    `held`: until the first token of a fast request that was made then, which has the new version. `swapped`: until
    `load_weights` returned. `ended`: until the full responses under way had ended.
    """

    engine: str
    swap: Swap
    held: list[float] = field(default_factory=list)
    swapped: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)

    def saved(self, drained: SwapTiming) -> Spread:
        """How many times sooner the fast request is answered than with "drain"."""
        return ratios(drained.held, self.held)


def measure(config: Config, under_way: int, rounds: int, told: Told) -> list[SwapTiming]:
    """The student of `config` with every way of swapping that its engine knows."""
    return asyncio.run(_measure(config, under_way, rounds, told))


def to_json(timings: Sequence[SwapTiming]) -> list[dict[str, object]]:
    keys = ("held", "swapped", "ended")
    return [
        {**asdict(one), **{f"{key}_spread": asdict(Spread.of(getattr(one, key))) for key in keys}}
        for one in timings
    ]


async def _measure(config: Config, under_way: int, rounds: int, told: Told) -> list[SwapTiming]:
    folder, kind = resolve_model(config.models.student, "models.student"), config.engine.kind
    swaps = [swap for swap in get_args(Swap) if not (kind == "vllm" and swap == "beside")]
    timings = [SwapTiming(kind, swap) for swap in swaps]
    weights, length = read_weights(folder), config.rollout.generation.response_limit
    engines: list[Engine] = []
    try:
        for swap in swaps:
            engines.append(open_engine(config.engine.model_copy(update={"swap": swap}), folder))
        for number in range(rounds + 1):
            turn = list(zip(timings, engines, strict=True))
            for timing, engine in turn if number % 2 else turn[::-1]:
                found = await _round(engine, weights, under_way, length, number)
                if number:
                    for values, seconds in zip((timing.held, timing.swapped, timing.ended), found, strict=True):
                        values.append(seconds)
            told(number, rounds, "")
    finally:
        for engine in engines:
            await engine.close()
    return timings


async def _round(
    engine: Engine, weights: Mapping[str, torch.Tensor], under_way: int, length: int, number: int
) -> tuple[float, float, float]:
    """Seconds until the fast token, the swap and the end of the full responses."""
    full = [
        asyncio.ensure_future(engine.generate([*_PROMPT, i], Sampling(length, seed=i, ignore_eos=True)))
        for i in range(under_way)
    ]
    steps = engine.stats().steps
    while engine.stats().steps < steps + length // 2:  # noqa: ASYNC110 (an engine offers nothing to wait for)
        await asyncio.sleep(0.001)
    begun = time.perf_counter()

    async def since(work: Awaitable[object]) -> float:
        await work
        return time.perf_counter() - begun

    swap = asyncio.ensure_future(engine.load_weights(weights, engine.version + 1))
    await asyncio.sleep(0)  # the weights are handed over before the fast request is made
    fast = asyncio.ensure_future(engine.generate([*_PROMPT, 7, number], Sampling(1, seed=0), Priority.FAST))
    held, swapped, ended = await asyncio.gather(since(fast), since(swap), since(asyncio.gather(*full)))
    if fast.result().version != engine.version:
        raise EngineError("a request that was made after new weights had come did not run on them")
    return held, swapped, ended
