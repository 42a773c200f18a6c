"""Environments played in this process, for engines whose steps take well under a millisecond. No deadlines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from actfirst.environments.base import AsyncEnvironment, Environment, World
from actfirst.errors import ActfirstError, EnvironmentFailure
from actfirst.records import Observation, Task


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
        leased = _Inline(self._idle.pop() if self._idle else self._open())
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

    def _open(self) -> Environment:
        try:
            return self._world.open()
        except ActfirstError:
            raise
        except Exception as error:
            raise EnvironmentFailure(
                f"an environment of {self._world.name} cannot be opened: {type(error).__name__}: {error}"
            ) from error

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
