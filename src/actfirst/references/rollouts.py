"""References from successful rollouts, for tasks that nobody has demonstrated: the best that was played so far.

A rollout that solved its task leaves its actions here; they are replayed once, and what they showed is the reference of
the rollouts that follow. A shorter solution replaces a longer one. Until a task has been solved it has no reference,
and a guided method plays it by what it does without one. What a file holds (`references.path`, such as one of teacher
rollouts) is there from the beginning, and is replaced in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from actfirst.environments.base import World
from actfirst.records import Episode, Reference, Task
from actfirst.references.base import NoReferences, References
from actfirst.references.build.replay import replay

ROLLOUTS = "rollouts"


class RolloutReferences:
    """One reference per task that has been solved. `world` is replayed in this process."""

    def __init__(self, world: World, known: References | None = None) -> None:
        self._world = world
        self._known = known or NoReferences()
        self._found: dict[str, tuple[str, ...]] = {}
        self._made: dict[str, Reference] = {}

    def get(self, task: Task) -> Reference | None:
        if task.id in self._found and task.id not in self._made:
            self._make(task)
        return self._made.get(task.id) or self._known.get(task)

    def learn(self, episodes: Sequence[Episode]) -> None:
        """Take the solutions of a batch that are shorter than what is known."""
        for episode in episodes:
            actions = tuple(turn.action for turn in episode.turns if turn.valid)
            known = self.get(episode.task)
            solved = episode.error is None and episode.final is not None and episode.final.success
            if solved and (known is None or len(actions) < len(known.steps)):
                self._found[episode.task.id] = actions
                self._made.pop(episode.task.id, None)

    def coverage(self, tasks: Sequence[Task]) -> float:
        """The share of the tasks that have a reference."""
        return sum(self.get(task) is not None for task in tasks) / max(1, len(tasks))

    def _make(self, task: Task) -> None:
        environment = self._world.open()
        try:
            reference = replay(environment, task, self._found.pop(task.id), ROLLOUTS)
        finally:
            environment.close()
        if (
            reference.steps and reference.steps[-1].observation.success
        ):  # else the world left something to chance
            self._made[task.id] = reference
