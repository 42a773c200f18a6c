"""Full responses for visited contexts, and their teacher scores as each response completes.

Three forms, all `ContextSink`s that an episode announces its contexts to:
- `InlineResponses`: the response that acted is the sample (standard OPD);
- `AllResponses`: one deferred response per visited context, the paper's form (Section 4.3);
- `AdmittedResponses`: deferred responses for as many contexts as the batch has a budget for, drawn uniformly over
  the turns visited. Every context has a fixed uniform rank; those below an eager threshold start at once, so that they
  overlap with acting, and when the batch's interaction is over the next smallest ranks fill the budget. What is
  admitted is always a prefix of the rank order, so the draw is uniform whatever the threshold was, and it
  depends on seeds only, never on completion order. Samples leave in the order of their ranks: each update then
  sees turns of all tasks, and what a FIFO buffer drops in the end is a uniform draw too.

With the order "completion", samples leave as their responses were completed and scored instead. Then what comes first
depends on the time that each response took, and a run cannot be repeated sample by sample.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Protocol

from actfirst.config.sections import SampleOrder
from actfirst.errors import EpisodeError, TeacherError
from actfirst.methods.acting import Move, Policy
from actfirst.methods.objective import Scored
from actfirst.records import Alternatives, Response, Scores, TurnContext
from actfirst.rollout.play import ContextSink, EpisodeKey
from actfirst.rollout.together import cancelled
from actfirst.seeds import derive_uniform

ABANDONED = "environment failed"
"""Why responses are discarded whose episode began again."""

ACTED = "acted, not trained on"
"""Why responses are discarded that chose an action in a method whose samples are other responses."""


class Scorer(Protocol):
    """The frozen teacher: one log-prob per response token."""

    async def score(self, response: Response) -> Scores: ...

    def busy_seconds(self) -> float: ...


class Responses(ContextSink):
    """Collects what one rollout batch will be trained on; the base of all three forms. No `teacher`: no scores.

    `discarded` counts the responses that will be no samples, `tokens` those of all responses, and `failed` the contexts
    for which no response could be asked.
    """

    def __init__(self, policy: Policy, teacher: Scorer | None, order: SampleOrder = "position") -> None:
        self._policy = policy
        self._teacher = teacher
        self._order = order
        self._completed = 0
        self._tasks: dict[int, list[asyncio.Task[Scored | None]]] = {}
        self._dropped: list[asyncio.Task[Scored | None]] = []
        self._visits: Counter[int] = Counter()
        self._generated: Counter[int] = Counter()
        self._acted: Counter[int] = Counter()
        self.discarded: Counter[str] = Counter()
        self.tokens = 0
        self.failed = 0

    @property
    def contexts(self) -> int:
        return self._visits.total()

    @property
    def begun(self) -> int:
        """Responses under way or done."""
        return len(self._under_way())

    @property
    def waiting(self) -> list[float]:
        """The ranks of contexts whose response has not begun and may still, the smallest first."""
        return []

    def visited(self, key: EpisodeKey, context: TurnContext) -> None:
        """Counts; the deferred forms also start responses here."""
        self._visits[key.index] += 1

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None:
        """A response that acted is generated work; only the inline form makes it a sample."""
        if move.response is not None:
            self._acted[key.index] += 1
            self.tokens += len(move.response.token_ids)

    def abandoned(self, key: EpisodeKey) -> None:
        """Responses under way are cancelled; those that exist already are counted as discarded."""
        dropped = self._tasks.pop(key.index, [])
        for task in dropped:
            task.cancel()
        self._dropped += dropped
        if generated := self._generated.pop(key.index, 0) + self._acted.pop(key.index, 0):
            self.discarded[ABANDONED] += generated
        self._visits.pop(key.index, None)

    async def finish(self, admitted: int = 0) -> list[Scored]:
        """Called when all interaction is over; begins the first `admitted` that wait, and returns everything in order
        of episode and turn."""
        await cancelled(self._dropped)
        done = await asyncio.gather(*self._under_way())
        self.failed = done.count(None)
        if self._acted:
            self.discarded[ACTED] += self._acted.total()
        found = [scored for scored in done if scored is not None]
        return sorted(found, key=lambda scored: (scored.episode, scored.turn))

    async def cancel(self) -> None:
        await cancelled([*self._under_way(), *self._dropped])

    def _under_way(self) -> list[asyncio.Task[Scored | None]]:
        return [task for tasks in self._tasks.values() for task in tasks]

    def _start(self, key: EpisodeKey, work: Coroutine[Any, Any, Scored | None]) -> None:
        self._tasks.setdefault(key.index, []).append(asyncio.ensure_future(work))

    async def _respond(self, key: EpisodeKey, context: TurnContext, rank: float = 0.0) -> Scored | None:
        try:
            response = await self._policy.respond(context, key.turn_seed(context.turn, "full"))
        except EpisodeError:
            return None
        self._generated[key.index] += 1
        self.tokens += len(response.token_ids)
        return await self._score(key, context, response, rank)

    async def _score(self, key: EpisodeKey, context: TurnContext, response: Response, rank: float) -> Scored:
        try:
            scores = await self._teacher.score(response) if self._teacher is not None else Scores(())
        except TeacherError:
            scores = None
        self._completed += 1
        return Scored(
            key.index,
            context.turn,
            response,
            None if scores is None else scores.logprobs,
            float(self._completed) if self._order == "completion" else rank,
            Alternatives() if scores is None else scores.alternatives,
        )


class InlineResponses(Responses):
    """Scores the responses that acted."""

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None:
        if move.response is not None:
            self._generated[key.index] += 1
            self.tokens += len(move.response.token_ids)
            self._start(key, self._score(key, context, move.response, 0.0))


class AllResponses(Responses):
    """One response per visited context, started in the moment of the visit."""

    def visited(self, key: EpisodeKey, context: TurnContext) -> None:
        super().visited(key, context)
        self._start(key, self._respond(key, context))


class AdmittedResponses(Responses):
    """Responses for the contexts of smallest rank; `eager` is the rank below which they start at once."""

    def __init__(
        self, policy: Policy, teacher: Scorer | None, eager: float, order: SampleOrder = "position"
    ) -> None:
        super().__init__(policy, teacher, order)
        self._eager = eager
        self._waiting: list[tuple[float, EpisodeKey, TurnContext]] = []

    @property
    def waiting(self) -> list[float]:
        return sorted(rank for rank, _, _ in self._waiting)

    def visited(self, key: EpisodeKey, context: TurnContext) -> None:
        super().visited(key, context)
        rank = derive_uniform(key.seed, key.id, context.turn, "admission")
        if rank < self._eager:
            self._start(key, self._respond(key, context, rank))
        else:
            self._waiting.append((rank, key, context))

    def abandoned(self, key: EpisodeKey) -> None:
        super().abandoned(key)
        self._waiting = [item for item in self._waiting if item[1] != key]

    async def finish(self, admitted: int = 0) -> list[Scored]:
        self._waiting.sort(key=lambda item: item[0])
        for rank, key, context in self._waiting[:admitted]:
            self._start(key, self._respond(key, context, rank))
        return await super().finish()
