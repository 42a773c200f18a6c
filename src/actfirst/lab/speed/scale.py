"""`actfirst bench scale`: how time and memory grow when one thing doubles and everything else stays.

Rollouts are virtual turns on the embedded engine: random prompts that grow by a pair each turn, a fast action and a
full response for every turn, the environment free. The model has random weights: its tokens do not change the
cost. Memory is what the engine's tensors hold. (The update step has a measurement of its own: `bench update`.)
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from actfirst.config.engine_sections import EngineSection
from actfirst.engines.base import Priority, Sampling
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.lab.speed.models import Size, random_weights
from actfirst.lab.spread import Told
from actfirst.models.files import ModelFiles
from actfirst.models.shapes import ModelShape
from actfirst.rollout.together import together
from actfirst.terminal.pictures import canvas

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
    "model width": lambda load, factor: replace(load, size=replace(load.size, heads=load.size.heads * factor)),
    "model depth": lambda load, factor: replace(
        load, size=replace(load.size, layers=load.size.layers * factor)
    ),
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
        """The factor by which processor time grows at each doubling."""
        return tuple(b.cpu / a.cpu for a, b in zip(self.costs, self.costs[1:]))


def measure(
    base: Workload, axes: Sequence[str], doublings: int, repeats: int, threads: int, told: Told
) -> list[Growth]:
    """Every axis in turn; the base is measured anew for each, so that the points of a curve are measured together."""
    factors = tuple(2**power for power in range(doublings + 1))
    done, grown = 0, []
    for axis in axes:
        best: dict[int, Cost] = {}
        for _ in range(repeats):
            for factor in factors:
                cost = asyncio.run(run(AXES[axis](base, factor), threads))
                done += 1
                told(done, len(axes) * repeats * len(factors), f"{axis} x{factor}")
                if factor not in best or cost.cpu < best[factor].cpu:
                    best[factor] = cost
        grown.append(Growth(axis, factors, tuple(best[factor] for factor in factors)))
    return grown


async def run(load: Workload, threads: int) -> Cost:
    """One rollout batch on a fresh engine."""
    longest = load.history + load.turns * load.pair + max(load.response, _FAST)
    settings = EngineSection(preempt=False, dtype="float32", threads=threads)
    shape = ModelShape.from_dict(load.size.config(_VOCABULARY, longest))
    engine = EmbeddedEngine(ModelFiles(shape, frozenset(), None), random_weights(shape), settings)
    try:
        await engine.generate([1, 2, 3], Sampling(2, seed=0))  # the first call of torch is slow
        before = engine.stats()
        begun, used = time.perf_counter(), time.process_time()
        await together(_play(engine, load, task) for task in range(load.tasks))
        seconds, cpu, after = time.perf_counter() - begun, time.process_time() - used, engine.stats()
        prefilled = after.prefilled_tokens - before.prefilled_tokens
        generated = after.generated_tokens - before.generated_tokens
        return Cost(seconds, cpu, engine.memory(), after.steps - before.steps, prefilled, generated)
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


def draw_growth(grown: Sequence[Growth], path: Path) -> None:
    """One line per axis in two panels; the dashed line doubles with what doubles."""
    figure, panels = canvas(10.0, 4.2, columns=2)
    for axes, title, base in zip(panels, ("CPU time", "memory of the engine"), ("cpu", "memory"), strict=True):
        for growth in grown:
            costs = [float(getattr(cost, base)) for cost in growth.costs]
            axes.plot(growth.factors, [cost / costs[0] for cost in costs], marker="o", label=growth.axis)
        factors = max(grown, key=lambda growth: len(growth.factors)).factors
        axes.plot(factors, factors, color="#999999", linestyle="--", linewidth=1, label="in proportion")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(factors, [f"{factor}x" for factor in factors])
        axes.yaxis.set_major_formatter("{x:g}x")
        axes.set_title(title, fontsize=10, loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
