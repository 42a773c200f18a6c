"""What a probe found reaches the next batch, the batch's line and the checkpoint."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from actfirst.methods.acting import Probe, TrainingPoint
from actfirst.records import Scores
from actfirst.rollout.collect import Collector
from actfirst.rollout.stream import RolloutStream
from actfirst.rollout.task_order import TaskOrder
from actfirst.training.stored_state import StoredState
from tests.support.collecting import bench, corridor_tasks, perfect
from tests.support.scripted import ScriptedTeacher


class Harsh(ScriptedTeacher):
    """Likes what the student says less than the student does."""

    async def score(self, response):  # type: ignore[no-untyped-def]
        return Scores((-3.0,) * len(response.token_ids))


class Recording:
    """A collector that remembers how far training was when it was asked."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.player = collector.player
        self.asked: list[TrainingPoint] = []

    async def collect(self, index, tasks, progress, *rest, **more):  # type: ignore[no-untyped-def]
        self.asked.append(progress)
        return await self.collector.collect(index, tasks, progress, *rest, **more)


@pytest.mark.parametrize("overlap", [False, True])
def test_the_batch_after_a_probe_knows_what_it_found(overlap: bool) -> None:
    made = bench("turnopd-style", perfect, teacher=Harsh())
    recording = Recording(made.collector)
    order = TaskOrder(tuple(corridor_tasks(8)), 4, seed=1)

    async def run() -> list[Probe | None]:
        stream = RolloutStream(
            cast("Collector", recording), order, lambda index: TrainingPoint(index, index, 60), overlap=overlap
        )
        try:
            return [(await stream.next()).probe, stream.probe, (await stream.next()).probe]
        finally:
            await stream.close()

    found, kept, after = asyncio.run(run())
    assert found is not None
    assert found == kept == after  # one update later is no time for another probe
    assert [progress.probe for progress in recording.asked[:2]] == [None, found]


def test_a_checkpoint_keeps_it() -> None:
    plain = {
        "delivered": 1,
        "expected_contexts": 3.0,
        "ledger": {"generated": 0, "trained": 0, "discarded": {}, "buffered": 0},
        "offsets": {},
        "seconds": {},
        "elapsed": 1.0,
        "evaluations": [],
    }
    stored = StoredState.of({**plain, "probe": {"update": 10, "depth": 6.5}}, (), "here")
    assert stored.probe == Probe(10, 6.5)
    assert StoredState.of({**plain, "probe": None}, (), "here").probe is None
