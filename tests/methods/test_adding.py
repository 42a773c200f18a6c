"""The example of docs/methods.md: a method that nobody else knows, rolled out like any other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from actfirst.methods.acting import (
    Acting,
    Actor,
    Ending,
    EpisodeTools,
    Move,
    NextAction,
    ThinkThenAct,
    TrainingPoint,
)
from actfirst.methods.depth import Depth
from actfirst.methods.table import Method, ResponseTiming
from actfirst.records import TurnContext
from actfirst.rollout.collect import RolloutBatch
from tests.support.collecting import bench, corridor_tasks, perfect


@dataclass(frozen=True)
class EveryNth(Acting):
    """Think before every n-th action; act at once otherwise."""

    n: int

    def begin(self, tools: EpisodeTools) -> Actor:
        return _EveryNth(self.n, ThinkThenAct().begin(tools), NextAction().begin(tools))


@dataclass(frozen=True)
class _EveryNth(Actor):
    n: int
    thinking: Actor
    acting: Actor

    async def act(self, context: TurnContext, seed: int) -> Move | Ending:
        return await (self.thinking if context.turn % self.n == 0 else self.acting).act(context, seed)


@dataclass(frozen=True)
class HalfAtFirst(Depth):
    """Half of the turn limit for the first `updates` updates."""

    updates: int

    def limit(self, turn_limit: int, point: TrainingPoint) -> int:
        return turn_limit // 2 if point.update < self.updates else turn_limit


METHOD = Method("Thinking every third turn", EveryNth(3), ResponseTiming.DEFERRED, HalfAtFirst(50))


def collect(update: int) -> RolloutBatch:
    collector = replace(bench("vanilla", perfect).collector, method=METHOD)
    return asyncio.run(collector.collect(0, corridor_tasks(4), TrainingPoint(update=update)))


def test_it_acts_as_it_says() -> None:
    batch = collect(update=50)
    assert [turn.source.value for turn in batch.episodes[3].turns] == [
        "next_action",
        "next_action",
        "think",
        "next_action",
        "next_action",
    ]
    assert len(batch.samples) == batch.stats.transitions == 2 + 3 + 4 + 5


def test_responses_that_acted_are_accounted_for_beside_the_samples() -> None:
    """Every third turn has two responses: the one that acted, and the sample. Corridors of 2, 3, 4 and 5 turns."""
    batch = collect(update=50)
    assert batch.discarded == {"acted, not trained on": 3}
    assert batch.stats.full_responses == 14 + 3
    assert batch.stats.full_tokens > sum(len(sample.token_ids) for sample in batch.samples)


def test_its_depth_follows_its_own_schedule() -> None:
    assert [len(episode.turns) for episode in collect(update=0).episodes] == [2, 3, 4, 4]
