"""Replays an action list in an environment and caches what it showed: this is what a reference is.

Paper, "Reference Trajectories": selected action sequences are replayed offline under the training environment
configuration, and the initial and subsequent observations are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from actfirst.envs.base import Environment
from actfirst.errors import ReferenceStoreError
from actfirst.records import Reference, ReferenceStep, Task


def replay(environment: Environment, task: Task, actions: Sequence[str], source: str) -> Reference:
    """Execute `actions` from a fresh reset. Actions after termination are an error of the list."""
    _, initial = environment.reset(task)
    steps: list[ReferenceStep] = []
    for number, action in enumerate(actions, start=1):
        if steps and steps[-1].observation.done:
            raise ReferenceStoreError(
                f"reference of task {task.id} goes on after the episode ended at action {number - 1} of "
                f"{len(actions)}; cut the list there"
            )
        steps.append(ReferenceStep(action, environment.step(action)))
    score = steps[-1].observation.score if steps else initial.score
    return Reference(task.id, initial, tuple(steps), source, score)
