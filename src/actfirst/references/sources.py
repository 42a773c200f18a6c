"""References that a world's games give by themselves, replayed when they are first asked for.

Two sources: the walkthrough that a game file carries (it knows where everything is and never searches), and an expert
that acts on what it has seen alone (it searches as a policy must, so its contexts are those that a policy meets).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from actfirst.envs.alfworld.expert import expert_turn
from actfirst.envs.base import World
from actfirst.records import Pair, Reference, Task, TurnContext
from actfirst.references.replay import replay

Source = Literal["walkthrough", "expert"]

_PATIENCE = 60  # turns after which the expert gives up; a rollout's own limit is another matter


class Winnable(Protocol):
    """Any game that says how it can be won."""

    @property
    def walkthrough(self) -> Sequence[str]: ...


class GameWorld(World, Protocol):
    """A world whose games carry walkthroughs."""

    def game(self, task: Task) -> Winnable: ...


class GameReferences:
    """One reference per task; games are deterministic, so replaying now is replaying offline.

    Actions that do not win are no reference.
    """

    def __init__(self, world: GameWorld, source: Source) -> None:
        self._world = world
        self._source = source
        self._environment = world.open()
        self._replayed: dict[str, Reference | None] = {}

    def get(self, task: Task) -> Reference | None:
        if task.id not in self._replayed:
            actions = _SOURCES[self._source](self._world, task)
            reference = replay(self._environment, task, actions, self._source)
            won = bool(reference.steps) and reference.steps[-1].observation.success
            self._replayed[task.id] = reference if won else None
        return self._replayed[task.id]


def _walkthrough(world: GameWorld, task: Task) -> Sequence[str]:
    return world.game(task).walkthrough


def _expert(world: GameWorld, task: Task) -> Sequence[str]:
    environment = world.open()
    instruction, observation = environment.reset(task)
    history: tuple[Pair, ...] = ()
    while not observation.done and len(history) < _PATIENCE:
        context = TurnContext(instruction, history, observation, len(history) + 1)
        action = expert_turn(context).action
        history = (*history, Pair(observation.text, action))
        observation = environment.step(action)
    environment.close()
    return [pair.action for pair in history]


_SOURCES: dict[Source, Callable[[GameWorld, Task], Sequence[str]]] = {
    "walkthrough": _walkthrough,
    "expert": _expert,
}
