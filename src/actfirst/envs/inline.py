"""Environments played in this process, for engines whose steps take well under a millisecond."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
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


@contextmanager
def _boundary(call: str) -> Iterator[None]:
    """Whatever an environment raises is a failure of that environment, not of the run."""
    try:
        yield
    except ActfirstError:
        raise
    except Exception as error:
        raise EnvironmentFailure(f"{call} raised {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class _Inline:
    environment: Environment

    async def reset(self, task: Task) -> tuple[str, Observation]:
        with _boundary(f"reset of task {task.id}"):
            return self.environment.reset(task)

    async def step(self, action: str) -> Observation:
        with _boundary(f"step {action!r}"):
            return self.environment.step(action)


class InlinePool:
    """Opens environments of a world on demand and keeps them for later episodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._idle: list[Environment] = []

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[AsyncEnvironment]:
        environment = self._idle.pop() if self._idle else self._world.open()
        try:
            yield _Inline(environment)
        except BaseException:
            environment.close()  # its state is unknown after a failure
            raise
        self._idle.append(environment)

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
