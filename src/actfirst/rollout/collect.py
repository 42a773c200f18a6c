"""One rollout batch: its episodes run concurrently, its responses beside them, and samples come out.

A batch is complete when all interaction and all its responses and scores are. What it generated is accounted for
here: every response is a sample or a counted reason why not.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from actfirst.config.sections import SampleOrder
from actfirst.methods.acting import Probe, ThinkThenAct, TrainingPoint
from actfirst.methods.objective import NOT_SCORED, Scored
from actfirst.methods.table import Method, ResponseTiming
from actfirst.records import Episode, Task, Turn, TurnSample
from actfirst.rollout.pacing import Pacer
from actfirst.rollout.play import Player
from actfirst.rollout.responses import Scorer
from actfirst.rollout.share import Begin, OnEpisode, Playing, PlayingHere, Share
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
    """A completed rollout batch: stats.full_responses = len(samples) + sum(discarded).

    `depth` is how many turns its rollouts were allowed; `probe` what is known of useful depths after it. `covered` is
    the share of the training tasks that have a reference after it, where rollouts are the references.
    """

    index: int
    episodes: tuple[Episode, ...]
    samples: tuple[TurnSample, ...]
    discarded: dict[str, int]
    stats: BatchStats
    depth: int
    probe: Probe | None = None
    covered: float | None = None


@dataclass(frozen=True)
class Collector:
    """Everything that stays the same from batch to batch. `budget` None means a response for every context.

    `now` is the clock of the seconds at which episodes end. `pacer`, if there is one, may turn a batch of deferred
    responses into think-then-act. `sample_order` is how the samples of a batch are ordered. `anchored`: samples carry
    the teacher's log-probs, for the learner's KL. `shuffled`: samples leave in a seeded order, so that each part of a
    batch has turns of all tasks. `elsewhere`: other processes play; without it this one does.
    """

    method: Method
    player: Player
    teacher: Scorer
    seed: int
    budget: int | None
    now: Callable[[], float] = time.monotonic
    pacer: Pacer | None = None
    sample_order: SampleOrder = "position"
    anchored: bool = False
    shuffled: bool = False
    elsewhere: Begin | None = None

    async def collect(
        self,
        index: int,
        tasks: Sequence[Task],
        point: TrainingPoint,
        expected_contexts: float = 0.0,
        on_episode: OnEpisode | None = None,
        buffered: int = 0,
    ) -> RolloutBatch:
        """Roll out `tasks`, each as often as it is there.

        `expected_contexts` lets admission start early; any value is correct.
        `buffered` samples will be trained on before those of this batch: the budget is smaller by so many.
        """
        method = self._paced(len(tasks), expected_contexts)
        depth = method.depth.limit(self.player.turn_limit, point)
        budget = None if self.budget is None else max(0, self.budget - buffered)
        share = Share(
            batch=index,
            tasks=tuple(enumerate(tasks)),
            seed=self.seed,
            method=method,
            point=point,
            depth=depth,
            eager=None if budget is None else _eager(budget, expected_contexts),
            order=self.sample_order,
            scored=method.objective.needs_teacher or self.anchored,
            begun=self.now(),
        )
        engine = self.player.policy.engine
        started, scoring, before = time.monotonic(), self.teacher.busy_seconds(), engine.stats()
        playing = self._begin(share, on_episode)
        try:
            interaction = await playing.interact()
            outcome = await playing.finish(max(0, (budget or 0) - interaction.begun))
        except BaseException:
            await playing.cancel()
            raise
        episodes, scored = outcome.episodes, outcome.scored
        samples, discarded = make_samples(method, scored, episodes, point, anchored=self.anchored)
        if self.shuffled:
            order = random.Random(derive_seed(self.seed, "samples", index))
            samples = tuple(order.sample(samples, len(samples)))
        discarded.update(outcome.discarded)
        turns = [turn for episode in episodes for turn in episode.turns]
        fast = [request for turn in turns for request in turn.requests]
        fast += [request for episode in episodes for request in episode.unexecuted]
        stats = BatchStats(
            seconds=time.monotonic() - started,
            transitions=len(turns),
            contexts=outcome.contexts,
            fast_requests=len(fast),
            fast_tokens=sum(request.token_count for request in fast),
            full_responses=len(samples) + discarded.total(),
            full_tokens=outcome.tokens,
            failed_contexts=outcome.failed,
            scoring_seconds=self.teacher.busy_seconds() - scoring,
        )
        if self.pacer is not None and method.responses is ResponseTiming.DEFERRED:
            self.pacer.learn(before, engine.stats(), stats.full_responses)
        probe = method.depth.learn(self.player.turn_limit, point, samples)
        return RolloutBatch(
            index, with_responses(episodes, scored), samples, dict(discarded), stats, depth, probe
        )

    def _paced(self, tasks: int, contexts: float) -> Method:
        """The method, or one that acts by its full responses where acting first could only cost time."""
        if self.pacer is None or self.method.responses is ResponseTiming.INLINE:
            return self.method
        responses = float("inf") if self.budget is None else float(self.budget)
        if self.pacer.acts_first(tasks, contexts, responses):
            return self.method
        return replace(self.method, acting=ThinkThenAct(), responses=ResponseTiming.INLINE)

    def _begin(self, share: Share, on_episode: OnEpisode | None) -> Playing:
        if self.elsewhere is not None:
            return self.elsewhere(share, on_episode)
        return PlayingHere(self.player, self.teacher, share, on_episode)


def _eager(budget: int, expected_contexts: float) -> float:
    """A little below the expected share, so that a batch longer than usual does not overshoot."""
    return 0.8 * budget / expected_contexts if expected_contexts > 0 else 0.0


def with_responses(episodes: Sequence[Episode], scored: Sequence[Scored]) -> tuple[Episode, ...]:
    """The episodes with the full responses that were generated beside them; one that acted stays where it is."""
    beside = {(one.episode, one.turn): one.response for one in scored}

    def turn(place: int, turn: Turn) -> Turn:
        return replace(turn, response=turn.response or beside.get((place, turn.number)))

    return tuple(
        replace(episode, turns=tuple(turn(place, one) for one in episode.turns))
        for place, episode in enumerate(episodes)
    )


def make_samples(
    method: Method,
    scored: Sequence[Scored],
    episodes: Sequence[Episode],
    point: TrainingPoint,
    *,
    anchored: bool = False,
) -> tuple[tuple[TurnSample, ...], Counter[str]]:
    """Samples in order of rank, episode and turn, and counted reasons for responses that are none."""
    usable: list[tuple[Scored, tuple[float, ...]]] = []
    discarded: Counter[str] = Counter()
    for one, found in zip(scored, method.objective.advantages(scored, episodes), strict=True):
        if isinstance(found, str):
            discarded[found] += 1
        elif anchored and one.teacher_logprobs is None:
            discarded[NOT_SCORED] += 1
        elif not any(one.response.mask):
            discarded["no generated token"] += 1
        else:
            usable.append((one, found))
    ranked: list[tuple[float, TurnSample]] = []
    for place, group in groupby(usable, key=lambda pair: pair[0].episode):
        pairs, episode = list(group), episodes[place]
        weights = method.turn_weights.weights([sum(one.response.mask) for one, _ in pairs], point)
        for (one, advantages), weight in zip(pairs, weights, strict=True):
            sample = TurnSample(
                id=f"{episode.id}-t{one.turn:03d}",
                episode_id=episode.id,
                task_id=episode.task.id,
                turn=one.turn,
                prompt_ids=one.response.prompt_ids,
                token_ids=one.response.token_ids,
                mask=one.response.mask,
                behaviour_logprobs=one.response.logprobs,
                advantages=advantages,
                version=one.response.version,
                weight=weight,
                anchor_logprobs=(one.teacher_logprobs or ()) if anchored else (),
                alternatives=one.alternatives,
            )
            ranked.append((one.rank, sample))
    ranked.sort(key=lambda pair: pair[0])
    return tuple(sample for _, sample in ranked), discarded
