"""Acting from the interaction context alone: think-then-act, next-action prediction, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.engines.base import Priority
from actfirst.methods.acting.base import Actor, Ending, EpisodeTools, Move
from actfirst.policy.agent import Policy
from actfirst.records import ActionSource, Observation, TurnContext, Verdict


class Unchecked:
    """Base of actors that follow no reference: nothing to check, and no end of their own."""

    def finished(self, turn: int) -> bool:
        return False

    def observed(self, context: TurnContext, move: Move, after: Observation) -> Verdict:
        return Verdict.UNCHECKED


@dataclass(frozen=True)
class ThinkThenAct:
    """Standard OPD and every evaluation: reason at length, then submit the extracted action."""

    needs_reference = False
    guides = False

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Thinking(tools.policy)


@dataclass(frozen=True)
class NextAction:
    """Autonomous next-action prediction (paper, Section 4.2)."""

    needs_reference = False
    guides = False

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Predicting(tools.policy)


@dataclass(frozen=True)
class Stop:
    """Ends the rollout: what follows guidance in the ablation without next-action fallback."""

    needs_reference = False
    guides = False

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Stopping()


@dataclass(frozen=True)
class _Thinking(Unchecked):
    policy: Policy

    async def act(self, context: TurnContext, seed: int) -> Move:
        response = await self.policy.respond(context, seed, Priority.FAST)
        return Move(response.action or "", ActionSource.THINK, response=response)


@dataclass(frozen=True)
class _Predicting(Unchecked):
    policy: Policy

    async def act(self, context: TurnContext, seed: int) -> Move:
        fast = await self.policy.act_fast(context, seed)
        return Move(fast.action or "", ActionSource.NEXT_ACTION, (fast,))


class _Stopping(Unchecked):
    def finished(self, turn: int) -> bool:
        return True

    async def act(self, context: TurnContext, seed: int) -> Ending:
        return Ending()
