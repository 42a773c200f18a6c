"""How fast environments step and how much memory they take, by worker count; and two engines on the same games.

Throughput is what rollouts would see: random walks through a pool of worker processes, each of which plays as many
environments as in training, with the time of resets and without the start of processes. The ratio of two engines is of
the time inside `step` alone, measured in their own processes, in alternating rounds of the same run.
"""

from __future__ import annotations

import asyncio
import pickle
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.base import EnvironmentPool
from actfirst.environments.comparing import Contestant
from actfirst.environments.pool.inline import InlinePool
from actfirst.environments.pool.pool import ProcessPool
from actfirst.environments.pool.worker_process import WorkerProcess
from actfirst.lab.spread import Spread, ratios
from actfirst.records import Task
from actfirst.rollout.together import together

_MEGABYTE = 1 << 20
_PATIENCE = 300.0  # seconds that a start or a reset may take


@dataclass(frozen=True, slots=True)
class Throughput:
    """One line of the table. `steps_per_second` counts all workers; memory is that of one worker and its children.

    `step_ms` and `reset_ms` are how long an episode waits, also for other environments of its worker. No workers means
    this process, as worlds with fast steps are played by default: there steps take turns, so one environment is
    measured for all.
    """

    name: str
    workers: int
    per_worker: int
    steps_per_second: float
    step_ms: float
    reset_ms: float
    worker_megabytes: float | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much faster `fast` steps than `slow`, by the clock and by processor time, which hardly depends on the load.

    Milliseconds are processor time of one step.
    """

    fast: str
    slow: str
    rounds: int
    by_clock: Spread
    by_processor: Spread
    fast_ms: Spread
    slow_ms: Spread


async def throughput(contestant: Contestant, workers: int, seconds: float) -> Throughput:
    """Play random walks in all environments of `workers` processes (0: in one of this process) for some seconds."""
    per_worker = contestant.per_worker if workers else 1
    players = max(1, workers) * per_worker
    processes = _processes(contestant, workers) if workers else None
    pool: EnvironmentPool = processes or InlinePool(contestant.open_world())
    try:
        ready = asyncio.Barrier(players)
        done = await together(_player(contestant, pool, place, ready, seconds) for place in range(players))
        memory = [_megabytes(pid) for pid in processes.processes] if processes else []
    finally:
        await pool.close()
    steps = sum(player.steps for player in done)
    resets = sum(player.resets for player in done)
    return Throughput(
        name=contestant.name,
        workers=workers,
        per_worker=per_worker,
        steps_per_second=sum(player.steps / player.seconds for player in done),
        step_ms=1e3 * sum(player.stepping for player in done) / steps,
        reset_ms=1e3 * sum(player.resetting for player in done) / resets,
        worker_megabytes=statistics.fmean(memory) if memory else None,
    )


def _processes(contestant: Contestant, workers: int) -> ProcessPool:
    each, python = contestant.per_worker, contestant.python
    settings = PoolSection(
        workers=workers, environments_per_worker=each, reset_seconds=_PATIENCE, python=python
    )
    return ProcessPool(contestant.open_world, settings)


@dataclass
class _Played:
    steps: int = 0
    resets: int = 0
    stepping: float = 0.0
    resetting: float = 0.0
    seconds: float = 0.0


async def _player(
    contestant: Contestant, pool: EnvironmentPool, place: int, ready: asyncio.Barrier, seconds: float
) -> _Played:
    """One environment's walks. Everybody begins when all processes are up and have played a first reset."""
    played, rng = _Played(), random.Random(place)
    async with pool.lease() as environment:
        await environment.reset(contestant.tasks[place % len(contestant.tasks)])
        await ready.wait()
        began = time.perf_counter()
        while played.seconds < seconds or not played.steps:
            task, mark = rng.choice(contestant.tasks), time.perf_counter()
            instruction, seen = await environment.reset(task)
            played.resetting += time.perf_counter() - mark
            played.resets += 1
            for _ in range(contestant.turn_limit):
                mark = time.perf_counter()
                seen = await environment.step(contestant.walk(rng, instruction, seen))
                played.stepping += time.perf_counter() - mark
                played.steps += 1
                played.seconds = time.perf_counter() - began
                if seen.done or played.seconds >= seconds:
                    break
    return played


async def ratio(fast: Contestant, slow: Contestant, rounds: int, seconds: float) -> Ratio:
    """Alternate: in each round both walk the same tasks for some seconds, each in a process of its own."""
    workers = [
        WorkerProcess(pickle.dumps(partial(_Walks, one), protocol=4), one.python, _PATIENCE)
        for one in (fast, slow)
    ]
    took: list[list[tuple[float, float]]] = [[], []]
    try:
        for worker in workers:
            await worker.started()
        for number in range(-1, rounds):  # the round before the first warms up
            task = fast.tasks[number % len(fast.tasks)]
            for worker, means in zip(workers, took):
                found = await worker.call(1, "walk", (task, seconds), _PATIENCE + seconds, f"walking {task.id}")
                if number >= 0:
                    means.append(found)
    finally:
        await together(worker.close() for worker in workers)
    clock, processor = ([[one[which] for one in means] for means in took] for which in (0, 1))
    return Ratio(
        fast=fast.name,
        slow=slow.name,
        rounds=rounds,
        by_clock=ratios(clock[1], clock[0]),
        by_processor=ratios(processor[1], processor[0]),
        fast_ms=Spread.of([1e3 * seconds for seconds in processor[0]]),
        slow_ms=Spread.of([1e3 * seconds for seconds in processor[1]]),
    )


class _Walks:
    """A world in a worker process that takes whole timed walks, so that no pipe is in the time."""

    def __init__(self, contestant: Contestant) -> None:
        self._contestant = contestant
        self._environment = contestant.open_world().open()

    def open(self) -> _Walks:
        return self

    def walk(self, asked: tuple[Task, float]) -> tuple[float, float]:
        """Walk a task at random for some seconds; the mean seconds of a step, by the clock and of processor time."""
        task, seconds = asked
        rng, until = random.Random(task.id), time.monotonic() + seconds
        steps, clock, processor = 0, 0.0, 0.0
        while not steps or time.monotonic() < until:
            instruction, seen = self._environment.reset(task)
            for _ in range(self._contestant.turn_limit):
                chosen = self._contestant.walk(rng, instruction, seen)
                began, spent = time.perf_counter(), time.thread_time()
                seen = self._environment.step(chosen)
                processor += time.thread_time() - spent
                clock += time.perf_counter() - began
                steps += 1
                if seen.done or time.monotonic() >= until:
                    break
        return clock / steps, processor / steps

    def close(self) -> None:
        self._environment.close()


def _megabytes(pid: int) -> float:
    """Resident memory of a process and of what it started."""
    import psutil

    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return float(sum(member.memory_info().rss for member in family)) / _MEGABYTE


def to_json(lines: Sequence[Throughput], compared: Ratio | None) -> Mapping[str, object]:
    return {"throughput": [asdict(line) for line in lines], "ratio": asdict(compared) if compared else None}
