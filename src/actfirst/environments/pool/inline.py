"""Environments played in this process, for engines whose steps take well under a millisecond. No deadlines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from actfirst.environments.base import AsyncEnvironment, Environment, World
from actfirst.errors import ActfirstError, EnvironmentFailure
from actfirst.records import Observation, Task


@contextmanager
def _boundary(call: str) -> Iterator[None]:
    """Whatever an environment raises is a failure of that environment, not of the run."""
    try:
        yield
    except ActfirstError:
        raise
    except Exception as error:
        raise EnvironmentFailure(f"{call}: {type(error).__name__}: {error}") from error


class _Leased:
    """One environment for one episode. `whole` is false from the moment that a call is under way until it returns."""

    def __init__(self, environment: Environment) -> None:
        self.whole = True
        self._environment = environment

    async def reset(self, task: Task) -> tuple[str, Observation]:
        with self._calling(f"reset of task {task.id}"):
            return self._environment.reset(task)

    async def step(self, action: str) -> Observation:
        with self._calling(f"step {action!r}"):
            return self._environment.step(action)

    @contextmanager
    def _calling(self, call: str) -> Iterator[None]:
        self.whole = False
        with _boundary(call):
            yield
        self.whole = True


class InlinePool:
    """Opens environments of a world on demand and keeps them for later episodes, until something goes wrong in one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._idle: list[Environment] = []

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[AsyncEnvironment]:
        with _boundary(f"opening an environment of {self._world.name}"):
            environment = self._idle.pop() if self._idle else self._world.open()
        leased = _Leased(environment)
        try:
            yield leased
        except BaseException:
            leased.whole = False  # an episode that was interrupted leaves an unknown state
            raise
        finally:
            if leased.whole:
                self._idle.append(environment)
            else:
                environment.close()

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
