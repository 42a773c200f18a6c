"""How fast environments step and how much memory they take, by worker count; and two engines on the same games.

Throughput is what rollouts would see: random walks through a pool of worker processes, each of which plays as many
environments as in training, resets included in the time, the start of processes not. The ratio of two engines is of
the time inside `step` alone, measured in their own processes, in alternating rounds of the same run.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from actfirst.environments.base import Environment, EnvironmentPool, World
from actfirst.environments.pool.inline import InlinePool
from actfirst.environments.pool.pool import PoolLimits, ProcessPool
from actfirst.environments.webshop.environment import SEARCH_FORM
from actfirst.lab.spread import Spread
from actfirst.records import Observation, Task
from actfirst.rollout.together import together

_LIMITS = PoolLimits(reset_seconds=300.0)
_MEGABYTE = 1 << 20
_QUERY = 4
"""Words of a search."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A world to measure: how a worker opens it, some of its tasks, how many environments one worker plays at the
    same time, and the interpreter of workers."""

    name: str
    open_world: Callable[[], World]
    tasks: tuple[Task, ...]
    turn_limit: int
    per_worker: int = 1
    python: str = ""


@dataclass(frozen=True, slots=True)
class Throughput:
    """One line of the table. `steps_per_second` of all workers together; memory of one, its children included.

    `step_ms` and `reset_ms` are what an episode waits, for other environments of its worker too. No workers means
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
    """How much faster `fast` steps than `slow`, by the clock and by processor time, which neighbours cannot disturb.

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
    limits = replace(_LIMITS, workers=workers, per_worker=per_worker, python=contestant.python)
    processes = ProcessPool(contestant.open_world, limits)
    pool: EnvironmentPool = processes if workers else InlinePool(contestant.open_world())
    try:
        ready = asyncio.Barrier(players)
        done = await together(_player(contestant, pool, place, ready, seconds) for place in range(players))
        memory = [_megabytes(pid) for pid in processes.processes]
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
                seen = await environment.step(random_action(rng, instruction, seen))
                played.stepping += time.perf_counter() - mark
                played.steps += 1
                played.seconds = time.perf_counter() - began
                if seen.done or played.seconds >= seconds:
                    break
    return played


def random_action(rng: random.Random, instruction: str, seen: Observation) -> str:
    """One of the admissible actions; where there is a search form, a search for some words of the instruction.

    A shop's first page lists nothing but a button that does nothing.
    """
    if SEARCH_FORM in seen.templates:
        words = instruction.split()
        return f"search[{' '.join(rng.sample(words, min(_QUERY, len(words))))}]"
    return rng.choice(seen.admissible)


async def ratio(fast: Contestant, slow: Contestant, rounds: int, seconds: float) -> Ratio:
    """Alternate: in each round both walk the same tasks for some seconds, each in a process of its own."""
    pools = [
        ProcessPool(_Timed(one.open_world, one.turn_limit), replace(_LIMITS, workers=1, python=one.python))
        for one in (fast, slow)
    ]
    clock: list[tuple[float, float]] = []
    processor: list[tuple[float, float]] = []
    try:
        async with pools[0].lease() as first, pools[1].lease() as second:
            for number in range(-1, rounds):  # the round before the first warms up
                task = fast.tasks[number % len(fast.tasks)]
                took = []
                for environment in (first, second):
                    await environment.reset(task)
                    took.append(json.loads((await environment.step(str(seconds))).text))
                if number >= 0:
                    clock.append((took[0]["clock"], took[1]["clock"]))
                    processor.append((took[0]["processor"], took[1]["processor"]))
    finally:
        await together(pool.close() for pool in pools)
    return Ratio(
        fast=fast.name,
        slow=slow.name,
        rounds=rounds,
        by_clock=Spread.of([other / own for own, other in clock]),
        by_processor=Spread.of([other / own for own, other in processor]),
        fast_ms=Spread.of([1e3 * own for own, _ in processor]),
        slow_ms=Spread.of([1e3 * other for _, other in processor]),
    )


@dataclass(frozen=True)
class _Timed:
    """Opens a world whose environments take a whole timed walk for one step, so that no pipe is in the time."""

    open_world: Callable[[], World]
    turn_limit: int

    def __call__(self) -> World:
        return _TimedWorld(self.open_world(), self.turn_limit)


class _TimedWorld:
    def __init__(self, world: World, turn_limit: int) -> None:
        self.name, self.rules, self.fingerprint = world.name, world.rules, world.fingerprint
        self.turn_limit = turn_limit
        self._world = world

    def splits(self) -> Sequence[str]:
        return self._world.splits()

    def tasks(self, split: str) -> Sequence[Task]:
        return self._world.tasks(split)

    def open(self) -> Environment:
        return _TimedEnvironment(self._world.open(), self.turn_limit)


class _TimedEnvironment:
    """`step("2.5")` walks at random for 2.5 seconds and answers with the mean seconds of a step."""

    def __init__(self, environment: Environment, turn_limit: int) -> None:
        self._environment = environment
        self._turn_limit = turn_limit
        self._task: Task | None = None

    def reset(self, task: Task) -> tuple[str, Observation]:
        self._task = task
        return self._environment.reset(task)

    def step(self, action: str) -> Observation:
        assert self._task is not None
        rng, until = random.Random(self._task.id), time.monotonic() + float(action)
        steps, clock, processor = 0, 0.0, 0.0
        while not steps or time.monotonic() < until:
            instruction, seen = self._environment.reset(self._task)
            for _ in range(self._turn_limit):
                chosen = random_action(rng, instruction, seen)
                began, spent = time.perf_counter(), time.thread_time()
                seen = self._environment.step(chosen)
                processor += time.thread_time() - spent
                clock += time.perf_counter() - began
                steps += 1
                if seen.done or time.monotonic() >= until:
                    break
        return Observation(json.dumps({"clock": clock / steps, "processor": processor / steps}), ())

    def close(self) -> None:
        self._environment.close()


def _megabytes(pid: int) -> float:
    """Resident memory of a process and of what it started."""
    import psutil

    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return float(sum(member.memory_info().rss for member in family)) / _MEGABYTE


def to_json(lines: Sequence[Throughput], compared: Ratio | None) -> Mapping[str, object]:
    return {
        "throughput": [asdict(line) for line in lines],
        "ratio": asdict(compared) if compared else None,
    }
