"""Where a rollout finds the reference trajectory of its task."""

from __future__ import annotations

from typing import Protocol

from actfirst.records import Reference, Task


class References(Protocol):
    """Looks up one reference per task; None where the task has none."""

    def get(self, task: Task) -> Reference | None: ...


class NoReferences:
    """For methods that need none."""

    def get(self, task: Task) -> Reference | None:
        return None
