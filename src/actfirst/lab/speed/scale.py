"""`actfirst bench scale`: how time and memory grow when one thing doubles and everything else stays.

Rollouts are virtual turns on the embedded engine: random prompts that grow by a pair each turn, a fast action and a
full response for every turn, the environment free. The model has random weights: what it says has no part in what it
costs. Memory is what the engine's tensors hold. (The update step has a measurement of its own: `bench update`.)
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from actfirst.config.sections import EngineSection
from actfirst.engines.base import Priority, Sampling
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.lab.speed.models import Size, random_engine
from actfirst.rollout.together import together

_FAST = 8  # tokens of a fast action
_VOCABULARY = 1024


@dataclass(frozen=True, slots=True)
class Workload:
    """A rollout batch: `history` prompt tokens at the first turn, `pair` more with each, `response` in a response."""

    tasks: int = 4
    turns: int = 4
    history: int = 128
    pair: int = 16
    response: int = 32
    size: Size = field(default_factory=Size)


AXES: dict[str, Callable[[Workload, int], Workload]] = {
    "tasks per batch": lambda load, factor: replace(load, tasks=load.tasks * factor),
    "turns": lambda load, factor: replace(load, turns=load.turns * factor),
    "history length": lambda load, factor: replace(load, history=load.history * factor),
    "response length": lambda load, factor: replace(load, response=load.response * factor),
    "model width": lambda load, factor: replace(load, size=load.size.wider(factor)),
    "model depth": lambda load, factor: replace(load, size=load.size.deeper(factor)),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """The best of some runs: seconds, those of the processor, bytes that the engine holds, and what it did."""

    seconds: float
    cpu: float
    memory: int
    steps: int
    prefilled: int
    generated: int


@dataclass(frozen=True, slots=True)
class Growth:
    """One axis: the cost at 1, 2, 4, ... times the base."""

    axis: str
    factors: tuple[int, ...]
    costs: tuple[Cost, ...]

    @property
    def slopes(self) -> tuple[float, ...]:
        """By how much the time of the processor grows at each doubling."""
        return tuple(b.cpu / a.cpu for a, b in zip(self.costs, self.costs[1:]))


def measure(
    base: Workload,
    axes: Sequence[str],
    doublings: int,
    repeats: int,
    threads: int,
    told: Callable[[str, int], None],
) -> list[Growth]:
    """Every axis in turn; the base is measured anew for each, so that each curve is of one piece."""
    factors = tuple(2**power for power in range(doublings + 1))
    grown = []
    for axis in axes:
        best: dict[int, Cost] = {}
        for _ in range(repeats):
            for factor in factors:
                cost = asyncio.run(run(AXES[axis](base, factor), threads))
                told(axis, factor)
                if factor not in best or cost.cpu < best[factor].cpu:
                    best[factor] = cost
        grown.append(Growth(axis, factors, tuple(best[factor] for factor in factors)))
    return grown


async def run(load: Workload, threads: int) -> Cost:
    """One rollout batch on a fresh engine."""
    longest = load.history + load.turns * load.pair + max(load.response, _FAST)
    settings = EngineSection(preempt=False, dtype="float32", threads=threads)
    engine = random_engine(load.size, _VOCABULARY, longest, settings)
    try:
        await engine.generate([1, 2, 3], Sampling(2, seed=0))  # the first call of torch is a slow one
        before = engine.stats()
        begun, used = time.perf_counter(), time.process_time()
        await together(_play(engine, load, task) for task in range(load.tasks))
        seconds, cpu, after = time.perf_counter() - begun, time.process_time() - used, engine.stats()
        return Cost(
            seconds,
            cpu,
            engine.memory(),
            after.steps - before.steps,
            after.prefilled_tokens - before.prefilled_tokens,
            after.generated_tokens - before.generated_tokens,
        )
    finally:
        await engine.close()


async def _play(engine: EmbeddedEngine, load: Workload, task: int) -> None:
    rng = random.Random(task)
    prompt = [rng.randrange(_VOCABULARY) for _ in range(load.history)]
    responses = []
    for turn in range(load.turns):
        full = Sampling(load.response, seed=turn, ignore_eos=True)
        responses.append(asyncio.ensure_future(engine.generate(list(prompt), full)))
        await engine.generate([*prompt, 1], Sampling(_FAST, seed=turn, ignore_eos=True), Priority.FAST)
        prompt += [rng.randrange(_VOCABULARY) for _ in range(load.pair)]
    await asyncio.gather(*responses)


def to_json(base: Workload, grown: Sequence[Growth]) -> dict[str, object]:
    return {"base": asdict(base), "axes": [{**asdict(g), "slopes": list(g.slopes)} for g in grown]}
