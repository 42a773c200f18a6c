"""Playing one task: who is guided, and what happens when an environment fails.

A task whose environment failed begins again on a fresh one, and the batch shows nothing of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.pool.inline import InlinePool
from actfirst.environments.pool.pool import ProcessPool
from actfirst.errors import EnvironmentFailure, WorkerLost
from actfirst.evaluate.protocol import evaluate
from actfirst.methods.acting import Acting, Guided, ReplayReference, ThinkThenAct, TrainingPoint
from actfirst.records import Observation, Task
from actfirst.rollout.collect import RolloutBatch
from actfirst.rollout.play import MOST_LOSSES, EpisodeKey
from tests.support.collecting import Bench, bench, corridor_tasks, perfect
from tests.support.misbehaving import misbehaving
from tests.support.toy_world import CorridorEnvironment, CorridorWorld


@dataclass
class _Flaky(CorridorEnvironment):
    """Dies at its second step in corridors of four rooms while its world says so."""

    world: _FlakyWorld | None = None
    steps: int = 0

    def reset(self, task: Task) -> tuple[str, Observation]:
        self.steps = 0
        return super().reset(task)

    def step(self, action: str) -> Observation:
        assert self.world is not None
        self.steps += 1
        if self.length == 4 and self.steps == 2 and self.world.failures[0] > 0:
            self.world.failures[0] -= 1
            raise self.world.error("simulator gone")
        return super().step(action)


@dataclass(frozen=True)
class _FlakyWorld(CorridorWorld):
    failures: list[int] = field(default_factory=lambda: [0])
    error: type[Exception] = RuntimeError

    def open(self) -> _Flaky:
        return _Flaky(world=self)


def rolled_out(
    method: str,
    failures: int,
    retries: int,
    budget: int | None = None,
    error: type[Exception] = RuntimeError,
) -> tuple[RolloutBatch, Bench]:
    made = bench(method, perfect, world=_FlakyWorld(failures=[failures], error=error), budget=budget)
    return asyncio.run(made.playing(retries=retries).collect(0, corridor_tasks(4), TrainingPoint(), 14.0)), made


@pytest.mark.parametrize(("method", "budget"), [("vanilla", None), ("actfirst", None), ("actfirst", 10)])
def test_a_batch_comes_out_as_if_the_environment_had_never_failed(method: str, budget: int | None) -> None:
    smooth, _ = rolled_out(method, 0, 2, budget)
    rough, _ = rolled_out(method, 2, 2, budget)
    assert rough.samples == smooth.samples
    assert len({sample.id for sample in rough.samples}) == len(rough.samples)
    assert [episode.error for episode in rough.episodes] == [None] * 4
    assert [len(episode.turns) for episode in rough.episodes] == [len(e.turns) for e in smooth.episodes]
    assert rough.stats.contexts == smooth.stats.contexts == 14


def test_attempts_are_counted_on_the_episode() -> None:
    batch, _ = rolled_out("vanilla", 2, 2)
    assert [episode.attempts for episode in batch.episodes] == [1, 1, 3, 1]


def test_responses_of_abandoned_attempts_are_discarded_and_counted() -> None:
    """Standard OPD: both moves of the failed attempt had a response, and each was scored or about to be."""
    batch, made = rolled_out("vanilla", 1, 1)
    assert batch.discarded == {"environment failed": 2}
    assert batch.stats.full_responses == len(batch.samples) + 2 == len(made.engine.requests)


def test_after_the_last_attempt_the_failure_stays_on_the_episode() -> None:
    batch, _ = rolled_out("actfirst", 5, 2)
    assert [episode.attempts for episode in batch.episodes] == [1, 1, 3, 1]
    assert "simulator gone" in str(batch.episodes[2].error)
    assert [bool(episode.error) for episode in batch.episodes] == [False, False, True, False]
    assert len(batch.samples) == 2 + 3 + 2 + 5  # the contexts of the last attempt count, as far as it went


def test_a_worker_lost_for_another_s_fault_costs_no_attempt() -> None:
    smooth, _ = rolled_out("vanilla", 0, 0)
    rough, _ = rolled_out("vanilla", 3, 0, error=WorkerLost)
    assert [episode.error for episode in rough.episodes] == [None] * 4
    assert [episode.attempts for episode in rough.episodes] == [1, 1, 4, 1]
    assert rough.samples == smooth.samples


@pytest.mark.parametrize("retries", [0, 2])
def test_a_task_that_loses_every_worker_is_given_up_in_the_end(retries: int) -> None:
    batch, _ = rolled_out("vanilla", 1000, retries, error=WorkerLost)
    assert [episode.attempts for episode in batch.episodes] == [1, 1, MOST_LOSSES + 1 + retries, 1]
    assert batch.episodes[2].error == "WorkerLost: simulator gone"


def test_only_failures_of_environments_are_worth_another_attempt() -> None:
    made = bench("actfirst-no-id", perfect)
    batch = asyncio.run(
        made.playing(retries=3).collect(0, [Task("elsewhere/1", "train", "x")], TrainingPoint())
    )
    assert batch.episodes[0].attempts == 1
    assert "unknown task" in str(batch.episodes[0].error)


def test_an_environment_that_cannot_be_opened_is_a_failure_of_its_episode() -> None:
    opened: list[int] = []

    class Shut(CorridorWorld):
        def open(self) -> CorridorEnvironment:
            opened.append(1)
            if len(opened) < 3:
                raise EnvironmentFailure("no more licences")
            return CorridorEnvironment()

    made = bench("vanilla", perfect, world=Shut())
    (first,) = asyncio.run(made.collector.collect(0, corridor_tasks(1), TrainingPoint())).episodes
    assert "no more licences" in str(first.error)
    again = made.playing(retries=1)
    (second,) = asyncio.run(again.collect(1, corridor_tasks(1), TrainingPoint())).episodes
    assert (second.error, second.attempts) == (None, 2)


def test_an_evaluation_begins_failed_tasks_again_too() -> None:
    for retries, errors in ((0, 1), (1, 0)):
        world = _FlakyWorld(failures=[1])
        player = bench("vanilla", perfect).playing(pool=InlinePool(world), retries=retries).player
        evaluation = asyncio.run(evaluate(player, corridor_tasks(4), [1], at_once=2))
        assert evaluation.errors == errors


def test_a_worker_that_crashes_is_survived_by_its_tasks(tmp_path: Path) -> None:
    """Two of four tasks lose their worker once; with one worker for all, so do their neighbours."""

    async def run() -> RolloutBatch:
        pool = ProcessPool(
            misbehaving(tmp_path), PoolSection(workers=1, environments_per_worker=4, step_seconds=20)
        )
        collector = bench("actfirst-no-id", perfect).playing(pool=pool, retries=4)
        tasks = [Task(f"corridor/{how}/3-000", "train", "rooms") for how in ("plain", "once-crash", "slow")]
        tasks.append(Task("corridor/once-raise/4-000", "train", "rooms"))
        try:
            return await collector.collect(0, tasks, TrainingPoint())
        finally:
            await pool.close()

    batch = asyncio.run(run())
    assert [episode.error for episode in batch.episodes] == [None] * 4
    assert batch.episodes[1].attempts >= 2
    assert all(episode.final is not None and episode.final.success for episode in batch.episodes)


@pytest.mark.parametrize(
    ("acting", "guided"), [(Guided(), True), (ReplayReference(), False), (ThinkThenAct(), False)]
)
def test_an_episode_is_guided_where_its_transitions_are_checked(acting: Acting, guided: bool) -> None:
    """Also outside training: a replayed reference is used, but nothing is checked against it."""
    (task,) = corridor_tasks(1)
    player = bench("vanilla", perfect).collector.player
    episode = asyncio.run(player.play(EpisodeKey(0, 0, task, 1), acting))
    assert (episode.guided, episode.reference_length) == (guided, 2 if guided else 0)
    assert episode.final is not None
    assert episode.final.success
