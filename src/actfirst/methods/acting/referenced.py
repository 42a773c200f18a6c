"""Acting with an offline reference trajectory.

`Guided` is the paper's rollout (Sections 4.1 and 4.2): inverse dynamics towards the reference's next
observation while every transition passes the check, then `then` for good. `ReplayReference` executes reference
actions themselves (ablation "Reference-Prefix Replay", TCOD-B2F). Reference actions never reach a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from actfirst.environments.rules import Carry, Transition
from actfirst.methods.acting.autonomous import NextAction, Stop
from actfirst.methods.acting.base import Acting, Actor, Counter, Ending, EpisodeTools, Move, TrainingPoint
from actfirst.records import ActionSource, Observation, Reference, TurnContext, Verdict
from actfirst.seeds import derive_seed


@dataclass(frozen=True)
class Guided(Acting):
    """Inverse dynamics until the first invalid proposal or failed check, then `then` for the rest."""

    then: Acting = field(default_factory=NextAction)
    needs_reference = True
    guides = True

    def begin(self, tools: EpisodeTools) -> Actor:
        follower = self.then.begin(tools)
        if tools.reference is None:
            return follower
        return _Guided(tools, tools.reference, follower)


class _Guided(Actor):
    def __init__(self, tools: EpisodeTools, reference: Reference, follower: Actor) -> None:
        self._tools = tools
        self._steps = reference.steps
        self._follower = follower
        self._carry = Carry()
        self._guided = True

    def finished(self, turn: int) -> bool:
        return not self._has_target(turn) and self._follower.finished(turn)

    async def act(self, context: TurnContext, seed: int) -> Move | Ending:
        self._guided = self._has_target(context.turn)
        if not self._guided:
            return await self._follower.act(context, seed)
        step = self._steps[context.turn - 1]
        # The reference action is a draft at most: it saves steps and reaches no prompt.
        proposal = await self._tools.policy.act_fast(context, seed, step.observation.text, step.action)
        action = proposal.action or ""
        if self._tools.rules.valid(action, context.observation):
            return Move(action, ActionSource.INVERSE_DYNAMICS, (proposal,), reference_next=step.observation)
        self._guided = False
        move = await self._follower.act(context, derive_seed(seed, "after invalid proposal"))
        if isinstance(move, Ending):
            return Ending((proposal, *move.requests))
        return replace(
            move,
            requests=(proposal, *move.requests),
            rejected=True,
            reference_next=step.observation,
        )

    def observed(self, context: TurnContext, move: Move, after: Observation) -> Verdict:
        if move.rejected:
            return Verdict.INVALID_PROPOSAL
        if not self._guided:
            return Verdict.UNCHECKED
        index = context.turn - 1
        following = self._steps[index + 1].action if index + 1 < len(self._steps) else None
        transition = Transition(context.observation, move.action, after, self._steps[index], following)
        result = self._tools.rules.check(transition, self._carry)
        self._carry = result.carry
        self._guided = result.aligned
        return Verdict.ALIGNED if result.aligned else Verdict.DIVERGED

    def _has_target(self, turn: int) -> bool:
        """Guidance also ends when the reference is used up and the task is not over."""
        return self._guided and turn <= len(self._steps)


@dataclass(frozen=True)
class WithoutReference(Acting):
    """Acts by `otherwise` in tasks that have no reference, and by `given` in all others."""

    given: Acting
    otherwise: Acting

    @property
    def needs_reference(self) -> bool:
        return self.given.needs_reference

    @property
    def guides(self) -> bool:
        return self.given.guides

    def begin(self, tools: EpisodeTools) -> Actor:
        return (self.otherwise if tools.reference is None else self.given).begin(tools)


def first_fraction(fraction: float) -> Callable[[int, TrainingPoint], int]:
    """The first `fraction` of a reference, rounded down."""
    return lambda length, point: math.floor(length * fraction)


@dataclass(frozen=True)
class BackToFront:
    """TCOD-B2F: all but the last action of a reference at first, and one fewer every `every` steps of `counter`.

    p(n) = clip((L - 1) - floor(n / every), 0, L - 1).
    """

    every: int
    counter: Counter

    def __call__(self, length: int, point: TrainingPoint) -> int:
        return max(0, length - 1 - point.steps(self.counter) // self.every)


@dataclass(frozen=True)
class ReplayReference(Acting):
    """Executes the first `prefix(length, point)` reference actions, then `then`."""

    prefix: Callable[[int, TrainingPoint], int] = lambda length, point: length
    then: Acting = field(default_factory=Stop)
    needs_reference = True

    def begin(self, tools: EpisodeTools) -> Actor:
        follower = self.then.begin(tools)
        if tools.reference is None:
            return follower
        count = self.prefix(len(tools.reference.steps), tools.point)
        return _Replaying(tuple(step.action for step in tools.reference.steps[:count]), follower)


@dataclass(frozen=True)
class _Replaying(Actor):
    actions: tuple[str, ...]
    follower: Actor

    def finished(self, turn: int) -> bool:
        return turn > len(self.actions) and self.follower.finished(turn)

    async def act(self, context: TurnContext, seed: int) -> Move | Ending:
        if context.turn <= len(self.actions):
            return Move(self.actions[context.turn - 1], ActionSource.REFERENCE)
        return await self.follower.act(context, seed)

    def observed(self, context: TurnContext, move: Move, after: Observation) -> Verdict:
        return self.follower.observed(context, move, after)
