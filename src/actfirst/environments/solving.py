"""How the tasks of an environment are solved: what whoever makes references of them needs to know.

Paper, appendix "Teacher Training and Reference Construction". Nothing here replays anything: that is the business of
`actfirst.references`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from actfirst.records import Observation, Pair, Task, TurnContext

Way = Callable[[Any, Task], Iterable[Sequence[str]]]
"""Proposes action lists for a task of a world."""

Rewrite = Callable[[str, Observation], Iterator[str]]
"""Other wordings of an action that is not valid where the observation was made; the first valid one is taken."""


@dataclass(frozen=True, slots=True)
class Demonstrated:
    """What a demonstrator thinks and does, and at which stage of the task. The action is valid, unless the
    environment understands what it does not list."""

    reasoning: str
    action: str
    stage: str = ""


Demonstrator = Callable[[TurnContext], Demonstrated]
"""Says from what a context shows what is to be done and why."""

Novice = Callable[[TurnContext, Random], Demonstrated]
"""The same of somebody who can read and act, and does not know what is to be done at this stage."""

Hasty = Callable[[TurnContext, Random], str]
"""What somebody does at once, without a thought."""


_PATIENCE = 60  # turns after which a demonstrator gives up; a rollout's own limit is another matter


def demonstrated_way(world: Any, task: Task, demonstrator: Demonstrator) -> Iterator[Sequence[str]]:
    """The demonstrator's own way through a task: it acts on what it has seen alone, as a policy must."""
    environment = world.open()
    instruction, observation = environment.reset(task)
    history: tuple[Pair, ...] = ()
    while not observation.done and len(history) < _PATIENCE:
        action = demonstrator(TurnContext(instruction, history, observation, len(history) + 1)).action
        history = (*history, Pair(observation.text, action))
        observation = environment.step(action)
    environment.close()
    yield [pair.action for pair in history]


class Rehearsal(Protocol):
    """Plays lists of actions at a fraction of the cost of an environment.

    It executes every action, valid or not, so its score is a hint: what it finds is replayed in the environment
    before it counts.
    """

    def score(self, task: Task, actions: Sequence[str]) -> float:
        """The best score that the actions reach."""
        ...

    def reword(self, task: Task, actions: Sequence[str]) -> tuple[str, ...]:
        """The same actions as they are admissible, without those that are not under any name."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Budget:
    """How much shortening may cost per task, however many lists are shortened for it."""

    replays: int = 400
    seconds: float = 120.0

    def less(self, replays: int, seconds: float) -> Budget:
        return Budget(self.replays - replays, self.seconds - seconds)


@dataclass(frozen=True, slots=True)
class Care:
    """How much is done for one task: the shortening budget (None: no shortening), and how often the reference is
    replayed in all, in tasks that leave things to chance and in others."""

    shorten: Budget | None = None
    replays: int = 1
    random_replays: int = 5


def _whole(observation: Observation) -> Observation:
    return observation


def _no_other_wording(action: str, seen: Observation) -> Iterator[str]:
    yield from ()


@dataclass(frozen=True)
class ReferenceSources:
    """Where references come from and what making them needs.

    - `ways`: how the world itself solves a task, by name; `best`: those that "best" asks, empty for all.
    - `rewrite`: demonstrations were recorded with other versions of a simulator, or by hand.
    - `instruction`: an instruction as it is compared with those of other people's files.
    - `rehearse`: opens a rehearsal of a world, where environments are slow.
    - `kept`: an observation with what the transition rules compare, and nothing more.
    - `demonstrator`: one that also says why it acts so, for whoever fine-tunes a model; None: there is none.
    - `novice`: what somebody does who has not learned the stage at hand, for whoever makes a weak model; None: nobody.
    - `hasty`: what somebody does who acts before thinking, for the same; None: anything that can be done.
    - `chance`: whether a task leaves things to chance; None: no task does.
    """

    ways: Mapping[str, Way] = field(default_factory=dict)
    rewrite: Rewrite = _no_other_wording
    instruction: Callable[[str], str] = str
    rehearse: Callable[[Any], Rehearsal] | None = None
    kept: Callable[[Observation], Observation] = _whole
    demonstrator: Demonstrator | None = None
    novice: Novice | None = None
    hasty: Hasty | None = None
    chance: Callable[[Task], bool] | None = None
    care: Care = Care()
    best: tuple[str, ...] = ()
