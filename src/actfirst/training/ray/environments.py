"""Environments in actors of their own: the pool of a recipe, once per worker, behind one pool.

A worker that is lost fails the episodes that it played, which begin again elsewhere (`rollout.play`), and is
replaced. Deadlines are those of the worker's own pool; a worker that does not answer at all is lost, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from actfirst.config.config import Config
from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.base import AsyncEnvironment, EnvironmentPool, EnvironmentSection
from actfirst.environments.pool.pool import open_pool
from actfirst.environments.registry import open_world
from actfirst.errors import EngineError, EnvironmentFailure
from actfirst.records import Observation, Task
from actfirst.training.ray.calls import Lost, end, finished
from actfirst.training.ray.cluster import Demand, actors


class EnvironmentActor:
    """Plays environments of one world. A lease has a number that the caller chose."""

    def __init__(self, section: EnvironmentSection, settings: PoolSection) -> None:
        self._section = section
        self._settings = settings
        self._pool: EnvironmentPool | None = None
        self._leased: dict[int, tuple[AsyncExitStack, AsyncEnvironment]] = {}

    async def lease(self, number: int) -> None:
        if self._pool is None:
            self._pool = open_pool(self._section, self._settings, open_world(self._section))
        stack = AsyncExitStack()
        self._leased[number] = (stack, await stack.enter_async_context(self._pool.lease()))

    async def reset(self, number: int, task: Task) -> tuple[str, Observation]:
        return await self._leased[number][1].reset(task)

    async def step(self, number: int, action: str) -> Observation:
        return await self._leased[number][1].step(action)

    async def release(self, number: int, interrupted: bool) -> None:
        stack, _ = self._leased.pop(number)
        with suppress(_Interrupted):
            async with stack:
                if interrupted:
                    raise _Interrupted  # so that the environment is not used again


class _Interrupted(Exception):
    """An episode that ended in the middle."""


@dataclass(eq=False, slots=True)
class _Worker:
    actor: Any
    leases: int = 0


def start_pool(demand: Demand, config: Config) -> RayPool:
    make = actors(EnvironmentActor, demand, 1)
    return RayPool(demand.count, lambda: make(config.environment, config.pool), config.runtime.call_seconds)


class RayPool:
    """`start` makes a worker. Workers start when they are first needed; a lost one is replaced by the next lease."""

    def __init__(self, workers: int, start: Callable[[], Any], call_seconds: float = 3600.0) -> None:
        self._start = start
        self.call_seconds = call_seconds
        self._workers: list[_Worker | None] = [None] * workers
        self._numbers = count()
        self.replaced = 0

    @property
    def actors(self) -> list[Any]:
        """The workers that are up."""
        return [worker.actor for worker in self._workers if worker is not None]

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[AsyncEnvironment]:
        leased = _Leased(self, self._least_loaded(), next(self._numbers))
        leased.worker.leases += 1
        interrupted = True
        try:
            await leased.begin()
            yield leased
            interrupted = False
        finally:
            leased.worker.leases -= 1
            if leased.worker in self._workers:
                leased.worker.actor.release.remote(leased.number, interrupted)  # nobody waits for it

    async def close(self) -> None:
        for worker in self._workers:
            if worker is not None:
                end(worker.actor)
        self._workers = [None] * len(self._workers)

    def lost(self, worker: _Worker) -> None:
        """Give the worker's place to a new one; whoever notices first does it."""
        if worker in self._workers:
            end(worker.actor)  # it may be unreachable instead of dead
            self._workers[self._workers.index(worker)] = None
            self.replaced += 1

    def _least_loaded(self) -> _Worker:
        place = min(range(len(self._workers)), key=lambda number: self._load(self._workers[number]))
        worker = self._workers[place]
        if worker is None:
            worker = self._workers[place] = _Worker(self._start())
        return worker

    @staticmethod
    def _load(worker: _Worker | None) -> int:
        return 0 if worker is None else worker.leases


class _Leased:
    """One environment of a worker, for one episode."""

    def __init__(self, pool: RayPool, worker: _Worker, number: int) -> None:
        self._pool = pool
        self.worker = worker
        self.number = number

    async def begin(self) -> None:
        await self._answer(self.worker.actor.lease.remote(self.number))

    async def reset(self, task: Task) -> tuple[str, Observation]:
        opening: tuple[str, Observation] = await self._answer(self.worker.actor.reset.remote(self.number, task))
        return opening

    async def step(self, action: str) -> Observation:
        observation: Observation = await self._answer(self.worker.actor.step.remote(self.number, action))
        return observation

    async def _answer(self, call: Any) -> Any:
        try:
            return await finished(call, self._pool.call_seconds)
        except Lost as error:
            self._pool.lost(self.worker)
            raise EnvironmentFailure(f"an environment worker was lost: {error}") from error
        except EngineError as error:
            raise EnvironmentFailure(str(error)) from error
