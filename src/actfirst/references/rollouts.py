"""References from successful rollouts, for tasks that nobody has demonstrated: the best that was played so far.

A rollout that solved its task leaves its actions here; they are replayed once, and what they showed is the reference of
the rollouts that follow. A shorter solution replaces a longer one. Until a task has been solved it has no reference,
and `references.otherwise` says how it is played. What a file holds (`references.path`, such as one of teacher rollouts)
is there from the beginning, and is replaced in the same way. A checkpoint keeps the actions that were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actfirst.environments.base import World
from actfirst.errors import EnvironmentFailure, TaskError
from actfirst.records import Episode, Reference, Task
from actfirst.references.base import NoReferences, References
from actfirst.references.build.replay import replay

ROLLOUTS = "rollouts"


class RolloutReferences:
    """One reference per task that has been solved. `world` is replayed in this process."""

    def __init__(self, world: World, known: References | None = None) -> None:
        self._world = world
        self._known = known or NoReferences()
        self._known_ids: set[str] | None = None
        self._found: dict[str, tuple[str, ...]] = {}
        self._made: dict[str, Reference] = {}

    @property
    def found(self) -> dict[str, tuple[str, ...]]:
        """The actions that solved each task, for a checkpoint."""
        return dict(self._found)

    def restore(self, found: Mapping[str, tuple[str, ...]]) -> None:
        """Know what a checkpoint knew, and nothing else; a task is replayed when it is asked for."""
        self._found, self._made = dict(found), {}

    def get(self, task: Task) -> Reference | None:
        if task.id in self._found and task.id not in self._made:
            self._make(task, self._found.pop(task.id))
        return self._made.get(task.id) or self._known.get(task)

    def learn(self, episodes: Sequence[Episode]) -> None:
        """Take the solutions of a batch that are shorter than what is known, and that solve their tasks once more."""
        for episode in episodes:
            if episode.error is not None or episode.final is None or not episode.final.success:
                continue
            actions = tuple(turn.action for turn in episode.turns if turn.valid)
            known = self.get(episode.task)
            if known is None or len(actions) < len(known.steps):
                self._make(episode.task, actions)

    def coverage(self, tasks: Sequence[Task]) -> float:
        """The share of the tasks that have a reference."""
        if self._known_ids is None:
            self._known_ids = {task.id for task in tasks if self._known.get(task) is not None}
        return sum(task.id in self._found or task.id in self._known_ids for task in tasks) / max(1, len(tasks))

    def _make(self, task: Task, actions: tuple[str, ...]) -> None:
        try:
            environment = self._world.open()
            try:
                reference = replay(environment, task, actions, ROLLOUTS)
            finally:
                environment.close()
        except (EnvironmentFailure, TaskError):
            return  # the solution is lost, and the run goes on
        if (
            reference.steps and reference.steps[-1].observation.success
        ):  # else the world left something to chance
            self._found[task.id], self._made[task.id] = actions, reference
