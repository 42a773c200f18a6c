"""Which contexts are trained on: a uniform draw over the turns visited, whatever ends first (design, "Admission")."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from actfirst.methods.acting import TrainingPoint
from actfirst.records import TurnSample
from actfirst.rollout.buffer import SampleBuffer
from actfirst.rollout.collect import RolloutBatch
from tests.support.collecting import Bench, bench, corridor_tasks, perfect

BATCHES, TASKS, BUDGET = 80, 8, 7  # corridors of 2 to 5 rooms, twice: 28 contexts, a quarter is wanted
Place = tuple[int, int]


def place(sample: TurnSample) -> Place:
    return int(sample.episode_id.split("-")[1]), sample.turn


def kept(made: Bench, *, expected: float, per_batch: int = BUDGET) -> Counter[Place]:
    """The (task, turn) of every sample that the next update takes; what is left over is stale and dropped."""
    drawn: Counter[Place] = Counter()

    async def run() -> None:
        for index in range(BATCHES):
            batch = await made.collector.collect(index, corridor_tasks(TASKS), TrainingPoint(), expected)
            buffer = SampleBuffer(max_lag=0)
            buffer.add(batch.samples, batch.discarded)
            drawn.update(place(sample) for sample in buffer.take(per_batch, version=0) or ())

    asyncio.run(run())
    return drawn


def chi_square(drawn: Counter[Place]) -> float:
    assert sum(drawn.values()) == BATCHES * BUDGET
    mean = BATCHES * BUDGET / 28
    visited = [(task, turn) for task in range(TASKS) for turn in range(1, 3 + task % 4)]
    return sum((drawn[spot] - mean) ** 2 / mean for spot in visited)


@pytest.mark.parametrize("expected", [0.0, 15.0], ids=["nothing eager", "far more than expected"])
def test_every_turn_of_every_task_is_trained_on_equally_often(expected: float) -> None:
    """27 degrees of freedom: 55.5 is exceeded once in 1,000. Also when more was admitted than is needed."""
    made = bench("actfirst", perfect, budget=BUDGET)
    assert chi_square(kept(made, expected=expected)) < 55.5


def test_first_in_first_out_without_admission_keeps_the_first_tasks_alone() -> None:
    """The paper's form generates everything, and a buffer that discards what is stale keeps what came first."""
    drawn = kept(bench("actfirst", perfect), expected=0.0)
    assert {task for task, _ in drawn} == {0, 1, 2}
    assert chi_square(drawn) > 300


def test_samples_of_a_batch_come_in_an_order_that_knows_neither_tasks_nor_turns() -> None:
    made = bench("actfirst", perfect, budget=100)
    batch = asyncio.run(made.collector.collect(0, corridor_tasks(TASKS), TrainingPoint(), 28.0))
    places = [place(sample) for sample in batch.samples]
    assert len(set(places)) == 28
    assert places != sorted(places)
    first_half = {task for task, _ in places[:14]}
    assert len(first_half) >= 6


def test_what_is_still_buffered_is_not_generated_again() -> None:
    made = bench("actfirst", perfect, budget=20)
    for buffered, generated in ((0, 20), (12, 8), (30, 0)):
        batch = asyncio.run(
            made.collector.collect(0, corridor_tasks(TASKS), TrainingPoint(), 0.0, buffered=buffered)
        )
        assert batch.stats.full_responses == len(batch.samples) == generated


def test_responses_generated_for_each_one_trained_on() -> None:
    """Batches of 14 to 28 contexts, two updates of 10 from each: at most 1.1 are generated for each one used."""
    made = bench("actfirst", perfect, budget=20)
    buffer, version, expected = SampleBuffer(max_lag=1), 0, 0.0

    async def run() -> None:
        nonlocal version, expected
        for index in range(40):
            made.engine.version = version
            tasks = corridor_tasks(4 + (index * 7) % 5)
            batch = await made.collector.collect(index, tasks, TrainingPoint(), expected, buffered=len(buffer))
            seen = float(batch.stats.contexts)
            expected = 0.5 * (expected + seen) if expected else seen
            buffer.add(batch.samples, batch.discarded, batch.stats.full_tokens)
            while buffer.take(10, version) is not None:
                version += 1

    asyncio.run(run())
    assert buffer.ledger.trained > 600
    assert buffer.ledger.generated <= 1.1 * buffer.ledger.trained
    assert buffer.ledger.generated_tokens <= 1.1 * buffer.ledger.trained_tokens


def test_overlapping_batches_generate_no_more_than_that_either() -> None:
    """The next batch starts when one arrives, before its update; batches of 14 to 28 contexts for updates of 20, so
    that some are too short for one. What will be left over is known when a batch starts."""
    made = bench("actfirst", perfect, budget=20)
    buffer, updates = SampleBuffer(max_lag=1), 40
    version, expected = 0, 0.0

    async def collect(index: int, left: int) -> RolloutBatch:
        tasks = corridor_tasks(4 + (index * 7) % 5)
        return await made.collector.collect(index, tasks, TrainingPoint(), expected, buffered=left)

    async def run() -> None:
        nonlocal version, expected
        index, ahead = 0, await collect(0, 0)
        while version < updates:
            batch, left = ahead, buffer.outlook(ahead.samples, 20, version, updates)
            index += 1
            if left is not None:  # generated while the update is made, by the version before it
                ahead = await collect(index, left)
            expected = 28.0  # the longest: what starts early is then surely taken
            buffer.add(batch.samples, batch.discarded, batch.stats.full_tokens)
            while version < updates and buffer.take(20, version) is not None:
                version += 1
                made.engine.version = version

    asyncio.run(run())
    assert buffer.ledger.trained == 20 * updates
    assert buffer.ledger.generated_tokens <= 1.1 * buffer.ledger.trained_tokens
