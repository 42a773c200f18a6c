"""A world whose environments are played in worker processes, as if they were here: so the contract covers the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.base import EnvironmentPool, EnvironmentSection
from actfirst.environments.pool.pool import open_pool
from actfirst.environments.registry import open_world
from actfirst.records import Observation, Task

Value = TypeVar("Value")

SETTINGS = PoolSection(kind="processes", workers=1, environments_per_worker=16)


class HostedWorld:
    """The pool is opened with the first environment and closed with the last."""

    def __init__(self, section: EnvironmentSection) -> None:
        self.world = open_world(section)
        self.name, self.turn_limit = self.world.name, self.world.turn_limit
        self.fingerprint = self.world.fingerprint
        self._section = section
        self._users = 0

    def splits(self) -> Sequence[str]:
        return self.world.splits()

    def tasks(self, split: str) -> Sequence[Task]:
        return self.world.tasks(split)

    def open(self) -> HostedEnvironment:
        if self._users == 0:
            self._loop = asyncio.Runner()
            self.pool: EnvironmentPool = open_pool(self._section, SETTINGS, self.world)
        self._users += 1
        return HostedEnvironment(self)

    def given_back(self) -> None:
        self._users -= 1
        if self._users == 0:
            self.end()

    def end(self) -> None:
        """Close the pool, whoever has not closed an environment."""
        self.run(self.pool.close())
        self._loop.close()

    def run(self, awaited: Awaitable[Value]) -> Value:
        """Workers and their deadlines stand still between two calls."""

        async def until_done() -> Value:
            return await awaited

        return self._loop.run(until_done())


class HostedEnvironment:
    """One lease, kept until `close`."""

    def __init__(self, home: HostedWorld) -> None:
        self._home = home
        self._lease = home.pool.lease()
        self._there = home.run(self._lease.__aenter__())
        self._closed = False

    def reset(self, task: Task) -> tuple[str, Observation]:
        return self._home.run(self._there.reset(task))

    def step(self, action: str) -> Observation:
        return self._home.run(self._there.step(action))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._home.run(self._lease.__aexit__(None, None, None))
            self._home.given_back()
