"""Acting from the interaction context alone: think-then-act, next-action prediction, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.engines.base import Priority
from actfirst.methods.acting.base import Acting, Actor, Ending, EpisodeTools, Move
from actfirst.policy.agent import Policy
from actfirst.records import ActionSource, TurnContext


@dataclass(frozen=True)
class ThinkThenAct(Acting):
    """Standard OPD and every evaluation: reason at length, then submit the extracted action."""

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Thinking(tools.policy)


@dataclass(frozen=True)
class NextAction(Acting):
    """Autonomous next-action prediction (paper, Section 4.2)."""

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Predicting(tools.policy)


@dataclass(frozen=True)
class Stop(Acting):
    """Ends the rollout: what follows guidance in the ablation without next-action fallback."""

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Stopping()


@dataclass(frozen=True)
class _Thinking(Actor):
    policy: Policy

    async def act(self, context: TurnContext, seed: int) -> Move:
        response = await self.policy.respond(context, seed, Priority.FAST)
        return Move(response.action or "", ActionSource.THINK, response=response)


@dataclass(frozen=True)
class _Predicting(Actor):
    policy: Policy

    async def act(self, context: TurnContext, seed: int) -> Move:
        fast = await self.policy.act_fast(context, seed)
        return Move(fast.action or "", ActionSource.NEXT_ACTION, (fast,))


class _Stopping(Actor):
    def finished(self, turn: int) -> bool:
        return True

    async def act(self, context: TurnContext, seed: int) -> Ending:
        return Ending()
