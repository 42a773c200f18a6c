"""The baselines of the paper as rollouts: what is played, and what is trained on."""

from __future__ import annotations

import asyncio

from actfirst.methods.acting import Probe, TrainingPoint
from actfirst.records import ActionSource
from actfirst.rollout.collect import RolloutBatch
from tests.support.collecting import bench, corridor_tasks, perfect


def collect(method: str, progress: TrainingPoint, count: int = 4) -> RolloutBatch:
    """Corridors of 2, 3, 4 and 5 rooms, won by going east and pulling the lever in the last one."""
    made = bench(method, perfect)
    return asyncio.run(made.collector.collect(progress.batch, corridor_tasks(count), progress))


def sources(batch: RolloutBatch, place: int) -> list[str]:
    return [turn.source.value for turn in batch.episodes[place].turns]


class TestFrontToBack:
    def test_a_rollout_just_ends_at_its_depth_and_every_turn_of_it_is_trained_on(self) -> None:
        batch = collect("tcod-f2b", TrainingPoint(batch=5))  # n = 6: two turns
        assert batch.depth == 2
        assert [len(episode.turns) for episode in batch.episodes] == [2, 2, 2, 2]
        assert [episode.final.done for episode in batch.episodes if episode.final] == [
            True,
            False,
            False,
            False,
        ]
        assert len(batch.samples) == 8

    def test_the_first_batch_has_one_turn_per_task(self) -> None:
        assert len(collect("tcod-f2b", TrainingPoint()).samples) == 4


class TestBackToFront:
    def test_at_first_only_the_last_action_is_the_students(self) -> None:
        batch = collect("tcod-b2f", TrainingPoint())  # n = 1: all but the last reference action
        assert sources(batch, 3) == ["reference"] * 4 + ["think"]
        assert [(sample.task_id.rpartition("/")[2], sample.turn) for sample in batch.samples] == [
            ("2-000", 2),
            ("3-001", 3),
            ("4-002", 4),
            ("5-003", 5),
        ]

    def test_replayed_turns_are_history_and_never_samples(self) -> None:
        batch = collect("tcod-b2f", TrainingPoint(batch=9))  # n = 10: two actions fewer
        assert sources(batch, 3) == ["reference"] * 2 + ["think"] * 3
        assert {sample.turn for sample in batch.samples if sample.episode_id == batch.episodes[3].id} == {
            3,
            4,
            5,
        }
        assert all(turn.source is ActionSource.THINK for turn in batch.episodes[0].turns)

    def test_the_student_acts_until_the_end_not_only_for_what_the_reference_has_left(self) -> None:
        made = bench("tcod-b2f", lambda request: "<think>\n\n</think>\n\n<action>go west</action>")
        batch = asyncio.run(made.collector.collect(0, corridor_tasks(4)[3:], TrainingPoint()))
        assert sources(batch, 0) == ["reference"] * 4 + ["think"] * 4  # the corridor's limit is 8 turns


class TestTurnOpdStyle:
    def test_a_probe_is_played_in_full_and_trained_on(self) -> None:
        batch = collect("turnopd-style", TrainingPoint())
        assert batch.depth == 8
        assert len(batch.samples) == 2 + 3 + 4 + 5
        assert batch.probe is not None

    def test_in_between_rollouts_end_at_the_depth_that_was_found(self) -> None:
        probe = Probe(update=0, depth=2.5)
        batch = collect("turnopd-style", TrainingPoint(batch=1, update=1, updates=60, probe=probe))
        assert batch.depth == 3
        assert [len(episode.turns) for episode in batch.episodes] == [2, 3, 3, 3]
        assert batch.probe == probe
