"""Environments played in worker processes: deadlines, restarts, and nothing left behind.

Workers start when they are needed and are filled one after the other. Calls of different environments never wait for
each other. A worker that crashes, or in which a call exceeds its deadline, is ended; every environment that it played
fails with an EnvironmentFailure, of the kind WorkerLost where it cannot have been the cause, and the next lease starts
a new worker. Beginning a task again is the business of rollouts.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.base import AsyncEnvironment, EnvironmentPool, EnvironmentSection, World
from actfirst.environments.pool.inline import InlinePool
from actfirst.environments.pool.worker import Host
from actfirst.environments.pool.worker_process import WorkerProcess
from actfirst.environments.registry import kind_of
from actfirst.errors import ActfirstError, ConfigError
from actfirst.records import Observation, Task


class _Worker:
    """A process and its places. A place that was given back keeps its environment for the next episode."""

    def __init__(self, opener: bytes, settings: PoolSection) -> None:
        self.process = WorkerProcess(opener, settings.python, settings.start_seconds)
        self.idle: list[int] = []
        self.taken = 0
        self._opened = 0

    def take(self) -> int:
        self.taken += 1
        if self.idle:
            return self.idle.pop()
        self._opened += 1
        return self._opened

    def give_back(self, place: int, reusable: bool) -> None:
        self.taken -= 1
        if reusable:
            self.idle.append(place)


class _Leased:
    """One environment for one episode; not used again once something went wrong in it."""

    def __init__(self, worker: _Worker, settings: PoolSection) -> None:
        self.worker = worker
        self.place = worker.take()
        self.used = False
        self.broken = False
        self._settings = settings

    async def reset(self, task: Task) -> tuple[str, Observation]:
        begun: tuple[str, Observation] = await self._call(
            "reset", task, self._settings.reset_seconds, f"reset of task {task.id}"
        )
        return begun

    async def step(self, action: str) -> Observation:
        seen: Observation = await self._call("step", action, self._settings.step_seconds, f"step {action!r}")
        return seen

    async def _call(self, method: str, argument: object, seconds: float, said: str) -> Any:
        self.used = True
        try:
            return await self.worker.process.call(self.place, method, argument, seconds, said)
        except ActfirstError:
            self.broken = True
            raise


class ProcessPool:
    """At most as many environments at once as the workers have places; further leases wait for a free one.

    `open_world` must be picklable: it is called in every worker.
    """

    def __init__(self, open_world: Callable[[], Host], settings: PoolSection) -> None:
        self._opener = pickle.dumps(open_world, protocol=4)
        self._settings = settings
        self._per_worker = settings.environments_per_worker or 1
        self._workers: list[_Worker] = []
        self._places = asyncio.Semaphore(settings.workers * self._per_worker)
        self._background: set[asyncio.Task[None]] = set()

    @property
    def processes(self) -> list[int]:
        """The ids of the worker processes that are up."""
        return [pid for worker in self._workers if (pid := worker.process.pid) is not None]

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[AsyncEnvironment]:
        await self._places.acquire()
        leased = _Leased(self._worker_with_room(), self._settings)
        try:
            await leased.worker.process.started()
            yield leased
        except BaseException:
            leased.broken = True  # an episode that was interrupted leaves an unknown state
            raise
        finally:
            self._give_back(leased)

    async def close(self) -> None:
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.process.close() for worker in workers), *self._background)

    def _worker_with_room(self) -> _Worker:
        """One that has an open environment idle, else the first that has room, else a new one."""
        self._drop_ended()
        with_room = [worker for worker in self._workers if worker.taken < self._per_worker]
        found = next((worker for worker in with_room if worker.idle), next(iter(with_room), None))
        if found is None:
            found = _Worker(self._opener, self._settings)
            self._workers.append(found)
        return found

    def _give_back(self, leased: _Leased) -> None:
        worker = leased.worker
        if leased.broken and leased.used and not worker.process.ended:
            self._begin(self._retire(leased))
        else:
            worker.give_back(leased.place, reusable=leased.used and not leased.broken)
            self._places.release()
        self._drop_ended()

    async def _retire(self, leased: _Leased) -> None:
        """Close an environment in its own time; its place counts as taken until then.

        Closing waits for a call that was cancelled, which may be a reset.
        """
        try:
            said = "closing a failed environment"
            seconds = max(self._settings.reset_seconds, self._settings.step_seconds)
            await leased.worker.process.call(leased.place, "close", None, seconds, said)
        except ActfirstError:
            pass  # either it is closed all the same, or its worker was ended
        finally:
            leased.worker.give_back(leased.place, reusable=False)
            self._places.release()
            self._drop_ended()

    def _drop_ended(self) -> None:
        for worker in [worker for worker in self._workers if worker.process.ended]:
            self._workers.remove(worker)
            self._begin(worker.process.close())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def open_pool(section: EnvironmentSection, settings: PoolSection, world: World) -> EnvironmentPool:
    """The pool that a recipe asks for. Nothing is started yet."""
    kind = kind_of(section)
    best = kind.hosting(section)
    processes = best.processes or bool(settings.python)
    if settings.kind == "inline" or (settings.kind == "auto" and not processes):
        return InlinePool(world)
    if settings.environments_per_worker > 1 and not best.threads:
        raise ConfigError(
            f"pool.environments_per_worker = {settings.environments_per_worker}: the engine of {world.name} cannot "
            "play two environments in one process; must be 0 or 1"
        )
    if not settings.python:
        kind.require(section)  # now, and not in every worker
    each = settings.environments_per_worker or best.per_worker
    return ProcessPool(
        partial(kind.open, section), settings.model_copy(update={"environments_per_worker": each})
    )
