"""One rollout batch: its episodes run concurrently, its responses beside them, and scored samples come out.

A batch is complete when all interaction and all its responses and scores are. What it generated is accounted for
here: every response is a sample or a counted reason why not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from actfirst.environments.base import EnvironmentPool
from actfirst.environments.rules import TransitionRules
from actfirst.errors import EnvironmentFailure, TaskError
from actfirst.methods.acting import EpisodeTools, Policy, Probe, Progress, ThinkThenAct
from actfirst.methods.table import Method, ResponseTiming
from actfirst.methods.turn_weights import TurnWeights
from actfirst.records import Episode, Task, TurnSample
from actfirst.references.base import References
from actfirst.rollout.attempts import play_leased
from actfirst.rollout.episode import EpisodeKey, failed
from actfirst.rollout.pacing import Pacer
from actfirst.rollout.responses import (
    AdmittedResponses,
    AllResponses,
    InlineResponses,
    ResponseSource,
    Scored,
    Scorer,
)
from actfirst.rollout.together import together
from actfirst.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class BatchStats:
    """What a rollout batch cost. `scoring_seconds` is how long the teacher computed meanwhile."""

    seconds: float
    transitions: int
    contexts: int
    fast_requests: int
    fast_tokens: int
    full_responses: int
    full_tokens: int
    failed_contexts: int
    scoring_seconds: float


@dataclass(frozen=True, slots=True)
class RolloutBatch:
    """A completed rollout batch: generated = len(samples) + sum(discarded).

    `depth` is how many turns its rollouts were allowed; `probe` what is known of useful depths after it.
    """

    index: int
    episodes: tuple[Episode, ...]
    samples: tuple[TurnSample, ...]
    discarded: dict[str, int]
    stats: BatchStats
    depth: int
    probe: Probe | None = None

    @property
    def generated(self) -> int:
        return len(self.samples) + sum(self.discarded.values())


@dataclass(frozen=True)
class Collector:
    """Everything that stays the same from batch to batch. `budget` None means a response for every context.

    `now` is the clock of the seconds at which episodes end. A task whose environment failed begins again, at most
    `retries` times. `pacer`, if there is one, may turn a batch of deferred responses into think-then-act.
    """

    method: Method
    policy: Policy
    teacher: Scorer
    pool: EnvironmentPool
    rules: TransitionRules
    references: References
    turn_limit: int
    seed: int
    budget: int | None
    now: Callable[[], float] = time.monotonic
    retries: int = 0
    pacer: Pacer | None = None

    async def collect(
        self,
        index: int,
        tasks: Sequence[Task],
        progress: Progress,
        expected_contexts: float = 0.0,
        on_episode: Callable[[Episode], None] | None = None,
        buffered: int = 0,
    ) -> RolloutBatch:
        """Roll out `tasks` once each. `expected_contexts` lets admission start early; any value is correct.

        `buffered` samples will be trained on before those of this batch: the budget is smaller by so many.
        """
        paced = self._paced(len(tasks), expected_contexts)
        if paced.pacer is None:
            return await paced._collect(index, tasks, progress, expected_contexts, on_episode, buffered)
        before = self.policy.engine.stats()
        batch = await paced._collect(index, tasks, progress, expected_contexts, on_episode, buffered)
        paced.pacer.learn(before, self.policy.engine.stats(), batch.stats.full_responses)
        return batch

    def _paced(self, tasks: int, contexts: float) -> Collector:
        """This collector, or one that acts by its full responses where acting first could only cost time."""
        if self.pacer is None or self.method.responses is ResponseTiming.INLINE:
            return self
        responses = float("inf") if self.budget is None else float(self.budget)
        if self.pacer.acts_first(tasks, contexts, responses):
            return self
        inline = replace(self.method, acting=ThinkThenAct(), responses=ResponseTiming.INLINE)
        return replace(self, method=inline, pacer=None)

    async def _collect(
        self,
        index: int,
        tasks: Sequence[Task],
        progress: Progress,
        expected_contexts: float,
        on_episode: Callable[[Episode], None] | None,
        buffered: int,
    ) -> RolloutBatch:
        started, scoring = time.monotonic(), self.teacher.busy_seconds()
        responses = self._responses(expected_contexts, buffered)
        keys = [
            EpisodeKey(index, place, task, derive_seed(self.seed, "episode", index, place, task.id))
            for place, task in enumerate(tasks)
        ]
        try:
            episodes = await together(self._play(key, progress, responses, on_episode) for key in keys)
            scored = await responses.finish()
        except BaseException:
            await responses.cancel()
            raise
        samples, discarded, failed = _samples(scored, self.method.turn_weights, progress)
        discarded.update(responses.discarded)
        stats = _stats(
            episodes,
            full_responses=len(samples) + sum(discarded.values()),
            full_tokens=responses.tokens,
            contexts=responses.contexts,
            failed=failed,
            seconds=time.monotonic() - started,
            scoring_seconds=self.teacher.busy_seconds() - scoring,
        )
        rule = self.method.depth
        return RolloutBatch(
            index,
            tuple(episodes),
            samples,
            discarded,
            stats,
            depth=rule.limit(self.turn_limit, progress),
            probe=rule.learn(self.turn_limit, progress, samples),
        )

    def _responses(self, expected_contexts: float, buffered: int) -> ResponseSource:
        if self.method.responses is ResponseTiming.INLINE:
            return InlineResponses(self.policy, self.teacher)
        if self.budget is None:
            return AllResponses(self.policy, self.teacher)
        budget = max(0, self.budget - buffered)
        # A little below the expected share, so that a batch longer than usual does not overshoot.
        eager = 0.8 * budget / expected_contexts if expected_contexts > 0 else 0.0
        return AdmittedResponses(self.policy, self.teacher, budget, eager)

    async def _play(
        self,
        key: EpisodeKey,
        progress: Progress,
        responses: ResponseSource,
        on_episode: Callable[[Episode], None] | None,
    ) -> Episode:
        plan = self.method.acting
        try:
            reference = self.references.get(key.task) if plan.needs_reference else None
        except (EnvironmentFailure, TaskError) as error:
            return failed(key, error)
        tools = EpisodeTools(self.policy, self.rules, reference, progress)
        episode = await play_leased(
            key,
            self.pool,
            lambda: plan.begin(tools),
            self.rules,
            self.method.depth.limit(self.turn_limit, progress),
            retries=self.retries,
            sink=responses,
            reference=reference if plan.guides else None,
        )
        episode = replace(episode, ended=self.now())
        if on_episode is not None:
            on_episode(episode)
        return episode


def _samples(
    scored: Sequence[Scored], turn_weights: TurnWeights, progress: Progress
) -> tuple[tuple[TurnSample, ...], dict[str, int], int]:
    """Samples in order of rank, episode and turn, reasons for responses that are none, and failed contexts."""
    samples: list[tuple[float, TurnSample]] = []
    discarded: Counter[str] = Counter()
    failed = 0
    for _, group in groupby(scored, key=lambda item: item.key.index):
        usable: list[Scored] = []
        for item in group:
            if item.response is None:
                failed += 1
            elif item.error is not None:
                discarded["not scored"] += 1
            elif not any(item.response.mask):
                discarded["no generated token"] += 1
            else:
                usable.append(item)
        lengths = [sum(item.response.mask) for item in usable if item.response]
        for item, weight in zip(usable, turn_weights.weights(lengths, progress), strict=True):
            samples.append((item.rank, _sample(item, weight)))
    samples.sort(key=lambda ranked: ranked[0])
    return tuple(sample for _, sample in samples), dict(discarded), failed


def _sample(item: Scored, weight: float) -> TurnSample:
    response = item.response
    assert response is not None
    return TurnSample(
        id=f"{item.key.id}-t{item.turn:03d}",
        episode_id=item.key.id,
        task_id=item.key.task.id,
        turn=item.turn,
        prompt_ids=response.prompt_ids,
        token_ids=response.token_ids,
        mask=response.mask,
        behaviour_logprobs=response.logprobs,
        teacher_logprobs=item.teacher_logprobs,
        version=response.version,
        weight=weight,
    )


def _stats(
    episodes: Sequence[Episode],
    *,
    full_responses: int,
    full_tokens: int,
    contexts: int,
    failed: int,
    seconds: float,
    scoring_seconds: float,
) -> BatchStats:
    turns = [turn for episode in episodes for turn in episode.turns]
    fast = [request for turn in turns for request in turn.requests]
    fast += [request for episode in episodes for request in episode.unexecuted]
    return BatchStats(
        seconds=seconds,
        transitions=len(turns),
        contexts=contexts,
        fast_requests=len(fast),
        fast_tokens=sum(request.token_count for request in fast),
        full_responses=full_responses,
        full_tokens=full_tokens,
        failed_contexts=failed,
        scoring_seconds=scoring_seconds,
    )
