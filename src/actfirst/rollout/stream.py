"""Rollout batches as a stream, one batch ahead of the learner when they may overlap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from actfirst.methods.acting import Probe, TrainingPoint
from actfirst.records import Episode, TurnSample
from actfirst.references.rollouts import RolloutReferences
from actfirst.rollout.collect import Collector, RolloutBatch
from actfirst.rollout.task_order import TaskOrder
from actfirst.rollout.together import cancelled


@dataclass
class RolloutStream:
    """Completed batches in order. With `overlap`, the next batch starts when one is handed out.

    `point` says how far training is when a batch begins. `delivered` is the cursor: batches under way when a run dies
    are rolled out again. `probe` is what the method's depth rule learnt from the batches so far. `outlook` says, of the
    samples that have just arrived and those before, how many will still be there for the batch that starts now; None if
    no update will need it.
    """

    collector: Collector
    order: TaskOrder
    point: Callable[[int], TrainingPoint]
    overlap: bool
    delivered: int = 0
    expected_contexts: float = 0.0
    probe: Probe | None = None
    on_episode: Callable[[Episode], None] | None = None
    outlook: Callable[[Sequence[TurnSample]], int | None] = lambda arrived: 0
    _ahead: asyncio.Task[RolloutBatch] | None = field(default=None, init=False)

    async def next(self) -> RolloutBatch:
        """The next completed batch."""
        self._ahead = self._ahead or self._start(self.outlook(()) or 0)
        batch = await self._ahead
        self._ahead = None
        self.delivered += 1
        self.probe = batch.probe
        references = self.collector.player.references
        if isinstance(references, RolloutReferences):  # of delivered batches only, as a checkpoint counts them
            references.learn(batch.episodes)
            batch = replace(batch, covered=references.coverage(self.order.tasks))
        seen = float(batch.stats.contexts)
        self.expected_contexts = 0.5 * (self.expected_contexts + seen) if self.expected_contexts else seen
        if self.overlap and (left := self.outlook(batch.samples)) is not None:
            self._ahead = self._start(left)
        return batch

    async def settle(self) -> None:
        """Wait for the batch under way, without taking it."""
        if self._ahead is not None:
            await asyncio.wait([self._ahead])

    async def close(self) -> None:
        """Drop the batch under way: nothing of it was delivered, so nothing of it is in the ledger."""
        if self._ahead is not None:
            await cancelled([self._ahead])
            self._ahead = None

    def _start(self, buffered: int) -> asyncio.Task[RolloutBatch]:
        index = self.delivered
        point = replace(self.point(index), probe=self.probe)
        tasks, expected = self.order.batch(index), self.expected_contexts
        return asyncio.ensure_future(
            self.collector.collect(index, tasks, point, expected, self.on_episode, buffered)
        )
