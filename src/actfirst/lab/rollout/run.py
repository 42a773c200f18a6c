"""Runs the experiment: calibrates single requests, then times both schedules at every point, in paired repeats.

Each repeat times both on the same engine, contexts and response seeds, and their order alternates. Beside the measured
speedup stand the calibrated idealized estimate and the least time that finite concurrency allows (paper, appendices
"Rollout Efficiency" and "Finite-Concurrency Constraints"), so that every row says how close to its limit it came.

Those bounds take single-request latencies as they are, however many requests are under way. An engine that computes
more slowly for many has narrower limits, so both are timed as well, in the same repeats: the chain of dependencies by
itself, and all the work without dependencies.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from actfirst.engines.base import Engine
from actfirst.lab.rollout.contexts import BenchContext
from actfirst.lab.rollout.gate import Gate
from actfirst.lab.rollout.schedules import Bench
from actfirst.lab.rollout.settings import Point, Settings
from actfirst.rollout.pacing import Load

Item = TypeVar("Item")
Schedule = Callable[[Sequence[BenchContext], int, Gate], Awaitable[float]]

_CALIBRATIONS = 3
_UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class Calibration:
    """Median latencies of single requests for one context; `full` by response length."""

    fast: float
    full: dict[int, float]


@dataclass(frozen=True, slots=True)
class Timing:
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

    @property
    def speedups(self) -> list[float]:
        return [one / two for one, two in zip(self.vanilla_seconds, self.actfirst_seconds, strict=True)]

    @property
    def speedup(self) -> float:
        return statistics.fmean(self.speedups)

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.speedups) if len(self.speedups) > 1 else None

    @property
    def vanilla_mean(self) -> float:
        return statistics.fmean(self.vanilla_seconds)

    @property
    def actfirst_mean(self) -> float:
        return statistics.fmean(self.actfirst_seconds)

    @property
    def attained(self) -> float:
        return 100.0 * self.bound_seconds / self.actfirst_mean

    @property
    def limited(self) -> float:
        return self.vanilla_mean / self.bound_seconds

    @property
    def over_bound(self) -> float:
        bounds = zip(self.chain_seconds, self.work_seconds, strict=True)
        return self.actfirst_mean / statistics.fmean(max(both) for both in bounds)

    @property
    def most(self) -> float:
        """The speedup if nothing were lost against the measured bounds."""
        return self.speedup * self.over_bound

    def to_json(self) -> dict[str, object]:
        return {
            "full": self.full,
            "cap": self.cap,
            "turns": self.turns,
            "vanilla_seconds": list(self.vanilla_seconds),
            "actfirst_seconds": list(self.actfirst_seconds),
            "chain_seconds": list(self.chain_seconds),
            "work_seconds": list(self.work_seconds),
            "over_bound": self.over_bound,
            "acted_first": self.acted_first,
            "speedup": self.speedup,
            "deviation": self.deviation,
            "ideal": self.ideal,
            "bound_seconds": self.bound_seconds,
            "limited": self.limited,
            "attained": self.attained,
            "needed_cap": self.needed_cap,
        }


async def calibrate(engine: Engine, contexts: Sequence[BenchContext], settings: Settings) -> list[Calibration]:
    """Independent single requests, prefill and decoding; the first ones of all only warm the engine up."""
    clock = asyncio.get_running_loop().time
    benches = {full: Bench(engine, settings.fast, full, settings.seed) for full in settings.full}
    some = benches[settings.full[0]]

    async def seconds(bench: Bench, context: BenchContext, full: bool) -> float:
        found = []
        for turn in range(_CALIBRATIONS):
            gate, begun = Gate(1, fast_first=True), clock()
            await (bench.respond if full else bench.act)(context, turn, gate)
            found.append(clock() - begun)
        return statistics.median(found)

    await seconds(some, contexts[0], False)
    await seconds(some, contexts[0], True)
    return [
        Calibration(
            await seconds(some, context, False),
            {full: await seconds(bench, context, True) for full, bench in benches.items()},
        )
        for context in contexts
    ]


async def time_point(
    engine: Engine,
    contexts: Sequence[BenchContext],
    calibrations: Sequence[Calibration],
    settings: Settings,
    point: Point,
) -> Timing:
    """Both schedules and their bounds at one point, in paired repeats."""
    bench = Bench(engine, settings.fast, point.full, settings.seed)
    batches = _batches(contexts, settings.tasks)
    acts_first = not settings.optimised or overlap_pays(calibrations, settings.tasks, point)
    ours = bench.actfirst if acts_first else bench.vanilla
    schedules: list[Schedule] = [bench.vanilla, ours, bench.chain, bench.flood]
    # An engine that holds the cap itself may pause a response for a fast action; a gate cannot.
    cap = _UNLIMITED if settings.optimised else point.cap
    seconds: list[list[float]] = [[] for _ in schedules]
    for repeat in range(settings.repeats):
        order = list(zip(schedules, seconds, strict=True))
        for schedule, found in order if repeat % 2 == 0 else order[::-1]:
            gates = [Gate(cap, fast_first=settings.fast_first) for _ in batches]
            found.append(sum([await schedule(one, point.turns, gate) for one, gate in zip(batches, gates)]))
    vanilla, actfirst, chain, work = seconds
    return Timing(
        point.full,
        point.cap,
        point.turns,
        tuple(vanilla),
        tuple(actfirst),
        tuple(chain),
        tuple(work),
        acts_first,
        ideal=calibrated_speedup(calibrations, settings.tasks, point),
        bound_seconds=bound_seconds(calibrations, settings.tasks, point),
        needed_cap=calibrated_cap(calibrations, settings.tasks, point.full),
    )


def overlap_pays(calibrations: Sequence[Calibration], tasks: int, point: Point) -> bool:
    """What the program's own pacing says of this point (`rollout.pacing`)."""
    fast = statistics.fmean(one.fast for one in calibrations)
    full = statistics.fmean(one.full[point.full] for one in calibrations)
    return Load(tasks, point.turns, tasks * point.turns, point.cap, fast, full).overlap_pays


def calibrated_speedup(calibrations: Sequence[Calibration], tasks: int, point: Point) -> float:
    """The idealized estimate for batches: a batch waits for its slowest task."""
    vanilla = actfirst = 0.0
    for batch in _batches(calibrations, tasks):
        vanilla += max(point.turns * one.full[point.full] for one in batch)
        actfirst += max(_alone(one, point) for one in batch)
    return vanilla / actfirst


def bound_seconds(calibrations: Sequence[Calibration], tasks: int, point: Point) -> float:
    """The least time of ActFirst over all batches: by dependency, and by the slots that its requests occupy."""
    total = 0.0
    for batch in _batches(calibrations, tasks):
        occupied = sum(point.turns * (one.fast + one.full[point.full]) for one in batch)
        total += max(max(_alone(one, point) for one in batch), occupied / point.cap)
    return total


def calibrated_cap(calibrations: Sequence[Calibration], tasks: int, full: int) -> float:
    """N (1 + l_fast / l_full) with mean latencies: no speedup is possible at or below this cap."""
    ratio = sum(one.fast for one in calibrations) / sum(one.full[full] for one in calibrations)
    return tasks * (1.0 + ratio)


def _alone(one: Calibration, point: Point) -> float:
    return (point.turns - 1) * one.fast + max(one.fast, one.full[point.full])


def _batches(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
