"""Rollout batches as a stream, one batch ahead of the learner when they may overlap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from actfirst.methods.acting import Probe, TrainingPoint
from actfirst.records import Episode, TurnSample
from actfirst.rollout.collect import Collector, RolloutBatch
from actfirst.rollout.task_order import TaskOrder
from actfirst.rollout.together import cancelled


class RolloutStream:
    """Completed batches in order. With `overlap`, the next batch starts when one is handed out.

    `delivered` is the cursor: batches under way when a run dies are rolled out again. `probe` is what the method's
    depth rule learnt from the batches so far. `outlook` says, of the samples that have just arrived and those before,
    how many will still be there for the batch that starts now; None if no update will need it.
    """

    def __init__(
        self,
        collector: Collector,
        order: TaskOrder,
        point: Callable[[int], TrainingPoint],
        *,
        overlap: bool,
        delivered: int = 0,
        expected_contexts: float = 0.0,
        probe: Probe | None = None,
        on_episode: Callable[[Episode], None] | None = None,
        outlook: Callable[[Sequence[TurnSample]], int | None] = lambda arrived: 0,
    ) -> None:
        self._collector = collector
        self._order = order
        self._point = point
        self._overlap = overlap
        self._on_episode = on_episode
        self._outlook = outlook
        self._ahead: asyncio.Task[RolloutBatch] | None = None
        self.delivered = delivered
        self.expected_contexts = expected_contexts
        self.probe = probe

    async def next(self) -> RolloutBatch:
        """The next completed batch."""
        ahead = self._ahead or self._start(self.delivered, self._outlook(()) or 0)
        self._ahead = ahead
        batch = await ahead
        self._ahead = None
        self.delivered += 1
        self.probe = batch.probe
        seen = float(batch.stats.contexts)
        self.expected_contexts = 0.5 * (self.expected_contexts + seen) if self.expected_contexts else seen
        if self._overlap and (left := self._outlook(batch.samples)) is not None:
            self._ahead = self._start(self.delivered, left)
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

    def _start(self, index: int, buffered: int) -> asyncio.Task[RolloutBatch]:
        work = self._collector.collect(
            index,
            self._order.batch(index),
            replace(self._point(index), probe=self.probe),
            self.expected_contexts,
            self._on_episode,
            buffered,
        )
        return asyncio.ensure_future(work)
