"""What chooses the action that advances the environment.

An `Acting` is one value of a method: immutable, the same for every episode. `acting.begin(...)` gives the `Actor` of
one episode, which may hold state (is guidance still on?). Neither knows which environment it acts in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from actfirst.environments.rules import TransitionRules
from actfirst.policy.agent import Policy
from actfirst.records import (
    ActionSource,
    FastAction,
    Observation,
    Probe,
    Reference,
    Response,
    TurnContext,
    Verdict,
)

Counter = Literal["batch", "update"]
"""What a schedule counts: rollout batches or optimiser updates."""


@dataclass(frozen=True, slots=True)
class TrainingPoint:
    """How far training is, for whatever follows a schedule. Both counters start at 0.

    `probe` is None until a method that probes has done so once.
    """

    batch: int = 0
    update: int = 0
    updates: int = 1
    probe: Probe | None = None

    def steps(self, counter: Counter) -> int:
        """n of a schedule: the number of this batch, from 1 (as TCOD counts), or the updates made so far."""
        return self.batch + 1 if counter == "batch" else self.update


@dataclass(frozen=True, slots=True)
class EpisodeTools:
    """What an actor may use in one episode. `reference` is None where the task has none."""

    policy: Policy
    rules: TransitionRules
    reference: Reference | None
    point: TrainingPoint


@dataclass(frozen=True, slots=True)
class Move:
    """A chosen action and how it came about. `action` is empty where none could be parsed.

    `rejected` says that an inverse-dynamics proposal was invalid before this action was found; `reference_next` is the
    observation that the proposal was asked to reach.
    """

    action: str
    source: ActionSource
    requests: tuple[FastAction, ...] = ()
    response: Response | None = None
    rejected: bool = False
    reference_next: Observation | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The rollout ends here without a step; `requests` were made for it in vain."""

    requests: tuple[FastAction, ...] = ()


class Actor(Protocol):
    """Chooses the actions of one episode. What is written out here suits an actor that follows no reference."""

    def finished(self, turn: int) -> bool:
        """Whether the rollout is over before this turn: its context is then not visited."""
        return False

    async def act(self, context: TurnContext, seed: int) -> Move | Ending:
        """The next action, or the end of the rollout."""
        ...

    def observed(self, context: TurnContext, move: Move, after: Observation) -> Verdict:
        """Told of every executed move; says what the transition check found."""
        return Verdict.UNCHECKED


class Acting(Protocol):
    """One way of acting, as a value."""

    @property
    def needs_reference(self) -> bool:
        return False

    @property
    def guides(self) -> bool:
        """Whether transitions are checked against the reference."""
        return False

    def begin(self, tools: EpisodeTools) -> Actor: ...
