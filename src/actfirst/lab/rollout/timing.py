"""Times the experiment: calibrates single requests, then times both schedules at a point, in paired repeats.

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
from collections.abc import Sequence
from typing import TypeVar

from actfirst.engines.base import Engine
from actfirst.lab.rollout.result import Calibration, RolloutPoint
from actfirst.lab.rollout.schedules import Bench, BenchContext, Gate, Schedule, timed
from actfirst.lab.rollout.settings import Point, RolloutSettings
from actfirst.rollout.pacing import Load

Item = TypeVar("Item")

_CALIBRATIONS = 3
_UNLIMITED = 1 << 30


async def calibrate(
    engine: Engine, contexts: Sequence[BenchContext], settings: RolloutSettings
) -> list[Calibration]:
    """Medians of independent single requests for each context; the first requests of all only warm the engine up."""
    clock = asyncio.get_running_loop().time
    benches = {full: Bench(engine, settings.fast, full, settings.seed) for full in settings.full}
    some = benches[settings.full[0]]

    async def seconds(ask: Schedule, context: BenchContext) -> float:
        found = []
        for turn in range(_CALIBRATIONS):
            gate, begun = Gate(1, fast_first=True), clock()
            await ask(context, turn, gate)
            found.append(clock() - begun)
        return statistics.median(found)

    await seconds(some.act, contexts[0])
    await seconds(some.respond, contexts[0])
    return [
        Calibration(
            await seconds(some.act, context),
            {full: await seconds(bench.respond, context) for full, bench in benches.items()},
        )
        for context in contexts
    ]


async def time_point(
    engine: Engine,
    contexts: Sequence[BenchContext],
    calibrations: Sequence[Calibration],
    settings: RolloutSettings,
    point: Point,
) -> RolloutPoint:
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
            total = 0.0
            for batch in batches:
                total += await timed(schedule, batch, point.turns, Gate(cap, fast_first=settings.fast_first))
            found.append(total)
    return summarise(point, seconds, calibrations, settings.tasks, acts_first)


def summarise(
    point: Point,
    seconds: Sequence[Sequence[float]],
    calibrations: Sequence[Calibration],
    tasks: int,
    acted_first: bool,
) -> RolloutPoint:
    """A point from the seconds of vanilla, ActFirst, the chain and the work, one entry of each per repeat."""
    vanilla, actfirst, chain, work = map(tuple, seconds)
    speedups = [one / two for one, two in zip(vanilla, actfirst, strict=True)]
    taken, bound = statistics.fmean(actfirst), bound_seconds(calibrations, tasks, point)
    return RolloutPoint(
        full=point.full,
        cap=point.cap,
        turns=point.turns,
        vanilla_seconds=vanilla,
        actfirst_seconds=actfirst,
        chain_seconds=chain,
        work_seconds=work,
        acted_first=acted_first,
        ideal=calibrated_speedup(calibrations, tasks, point),
        bound_seconds=bound,
        needed_cap=calibrated_cap(calibrations, tasks, point.full),
        speedup=statistics.fmean(speedups),
        deviation=statistics.stdev(speedups) if len(speedups) > 1 else None,
        attained=100.0 * bound / taken,
        limited=statistics.fmean(vanilla) / bound,
        over_bound=taken / statistics.fmean(map(max, chain, work)),
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
