"""The environment protocol. An environment knows nothing of methods, prompts or engines.

A `World` lists tasks and opens environments; an `Environment` plays one episode at a time. Both are plain
synchronous objects: worker pools and deadlines are built around them, not inside. A rollout sees them through an
`EnvironmentPool`, which hands out one `AsyncEnvironment` per episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from actfirst.records import Observation, Task


class Environment(Protocol):
    """Plays one episode at a time. An invalid action costs a turn and changes nothing else."""

    def reset(self, task: Task) -> tuple[str, Observation]:
        """Begin the task; returns its instruction and the first observation."""
        ...

    def step(self, action: str) -> Observation:
        """Submit an action and return what follows."""
        ...

    def close(self) -> None:
        """Release everything. Calling it twice is allowed."""
        ...


class World(Protocol):
    """One benchmark as configured: its tasks, and environments that play them.

    `rules` names the transition rules and the prompt templates that belong to the benchmark. `fingerprint`
    changes whenever a stored reference would no longer replay.
    """

    name: str
    rules: str
    turn_limit: int
    fingerprint: str

    def splits(self) -> Sequence[str]: ...

    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of a split in a stable order; raises TaskError for an unknown split."""
        ...

    def open(self) -> Environment: ...


class AsyncEnvironment(Protocol):
    """What a rollout plays: an environment whose calls may take time without blocking others."""

    async def reset(self, task: Task) -> tuple[str, Observation]: ...

    async def step(self, action: str) -> Observation: ...


class EnvironmentPool(Protocol):
    """Hands out environments, one per episode. What goes wrong in one is an EnvironmentFailure of its episode."""

    def lease(self) -> AbstractAsyncContextManager[AsyncEnvironment]: ...

    async def close(self) -> None:
        """Release everything; leaves no process behind."""
        ...
