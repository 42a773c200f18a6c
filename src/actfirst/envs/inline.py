"""Environments played in this process, for engines whose steps take well under a millisecond."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Protocol

from actfirst.envs.base import Environment, World
from actfirst.errors import ActfirstError, EnvironmentFailure
from actfirst.records import Observation, Task


class AsyncEnvironment(Protocol):
    """What a rollout plays: an environment whose calls may take time without blocking others."""

    async def reset(self, task: Task) -> tuple[str, Observation]: ...

    async def step(self, action: str) -> Observation: ...


class EnvironmentPool(Protocol):
    """Hands out environments, one per episode."""

    def lease(self) -> AbstractAsyncContextManager[AsyncEnvironment]: ...

    async def close(self) -> None: ...


class _Inline:
    """Whatever an environment raises is a failure of that environment, not of the run; it is not used again."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.broken = False

    async def reset(self, task: Task) -> tuple[str, Observation]:
        with self._boundary(f"reset of task {task.id}"):
            return self.environment.reset(task)

    async def step(self, action: str) -> Observation:
        with self._boundary(f"step {action!r}"):
            return self.environment.step(action)

    @contextmanager
    def _boundary(self, call: str) -> Iterator[None]:
        try:
            yield
        except ActfirstError:
            self.broken = True
            raise
        except Exception as error:
            self.broken = True
            raise EnvironmentFailure(f"{call} raised {type(error).__name__}: {error}") from error


class InlinePool:
    """Opens environments of a world on demand and keeps them for later episodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._idle: list[Environment] = []

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[AsyncEnvironment]:
        leased = _Inline(self._idle.pop() if self._idle else self._world.open())
        try:
            yield leased
        except BaseException:
            leased.broken = True  # an episode that was interrupted leaves an unknown state
            raise
        finally:
            if leased.broken:
                leased.environment.close()
            else:
                self._idle.append(leased.environment)

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
