"""Full responses for visited contexts, and their teacher scores as each response completes.

Three forms, all `ContextSink`s that an episode announces its contexts to:
- `InlineResponses`: the response that acted is the sample (standard OPD);
- `AllResponses`: one deferred response per visited context, the paper's form (Section 4.3);
- `AdmittedResponses`: deferred responses for `budget` contexts of the batch, drawn uniformly over the turns
  visited. Every context has a fixed uniform rank; those below an eager threshold start at once, so that they
  overlap with acting, and when the batch's interaction is over the next smallest ranks fill the budget. What is
  admitted is always a prefix of the rank order, so the draw is uniform whatever the threshold was, and it
  depends on seeds only, never on completion order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from actfirst.acting import Move, Policy
from actfirst.errors import EpisodeError, TeacherError
from actfirst.records import Response, TurnContext
from actfirst.rollout.episode import EpisodeKey
from actfirst.rollout.together import cancelled
from actfirst.seeds import derive_uniform


class Scorer(Protocol):
    """The frozen teacher: one log-prob per response token."""

    async def score(self, response: Response) -> tuple[float, ...]: ...

    def busy_seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Scored:
    """A response with its teacher scores, or the reason why it cannot be trained on."""

    key: EpisodeKey
    turn: int
    response: Response | None
    teacher_logprobs: tuple[float, ...] = ()
    error: str | None = None


class ResponseSource(Protocol):
    """Collects what one rollout batch will be trained on. `contexts` counts the visits."""

    contexts: int

    def visited(self, key: EpisodeKey, context: TurnContext) -> None: ...

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None: ...

    async def finish(self) -> list[Scored]:
        """Called when all interaction is over; returns everything in order of episode and turn."""
        ...

    async def cancel(self) -> None: ...


class _Pending:
    """Tasks under way; the base of all three forms."""

    def __init__(self, policy: Policy, teacher: Scorer) -> None:
        self._policy = policy
        self._teacher = teacher
        self._tasks: list[asyncio.Task[Scored]] = []
        self.contexts = 0

    def visited(self, key: EpisodeKey, context: TurnContext) -> None:
        """Counts; the deferred forms also start responses here."""
        self.contexts += 1

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None:
        """Nothing to do unless the move's own response is the sample."""

    async def finish(self) -> list[Scored]:
        done = await asyncio.gather(*self._tasks)
        return sorted(done, key=lambda scored: (scored.key.index, scored.turn))

    async def cancel(self) -> None:
        await cancelled(self._tasks)

    def _start(self, work: Awaitable[Scored]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def _respond(self, key: EpisodeKey, context: TurnContext) -> Scored:
        try:
            response = await self._policy.respond(context, key.turn_seed(context.turn, "full"))
        except EpisodeError as error:
            return Scored(key, context.turn, None, error=f"{type(error).__name__}: {error}")
        return await self._score(key, context.turn, response)

    async def _score(self, key: EpisodeKey, turn: int, response: Response) -> Scored:
        try:
            return Scored(key, turn, response, await self._teacher.score(response))
        except TeacherError as error:
            return Scored(key, turn, response, error=f"TeacherError: {error}")


class InlineResponses(_Pending):
    """Scores the responses that acted."""

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None:
        if move.response is not None:
            self._start(self._score(key, context.turn, move.response))


class AllResponses(_Pending):
    """One response per visited context, started in the moment of the visit."""

    def visited(self, key: EpisodeKey, context: TurnContext) -> None:
        super().visited(key, context)
        self._start(self._respond(key, context))


class AdmittedResponses(_Pending):
    """Responses for the contexts of smallest rank; `eager` is the rank below which they start at once."""

    def __init__(self, policy: Policy, teacher: Scorer, budget: int, eager: float) -> None:
        super().__init__(policy, teacher)
        self._budget = budget
        self._eager = eager
        self._waiting: list[tuple[float, EpisodeKey, TurnContext]] = []

    def visited(self, key: EpisodeKey, context: TurnContext) -> None:
        super().visited(key, context)
        rank = derive_uniform(key.seed, key.id, context.turn, "admission")
        if rank < self._eager:
            self._start(self._respond(key, context))
        else:
            self._waiting.append((rank, key, context))

    async def finish(self) -> list[Scored]:
        self._waiting.sort(key=lambda item: item[0])
        for _, key, context in self._waiting[: max(0, self._budget - len(self._tasks))]:
            self._start(self._respond(key, context))
        return await super().finish()
