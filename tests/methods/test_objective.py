"""Objectives: the paper's advantages by hand, and another objective through a whole batch and an update."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from actfirst.learning.update import Learner
from actfirst.methods.acting import TrainingPoint
from actfirst.methods.objective import NOT_SCORED, Distillation, Objective, Scored
from actfirst.records import Episode, Response, StopReason, TurnSample
from actfirst.rollout.collect import RolloutBatch
from tests.learning.making import learning, make_samples
from tests.support.collecting import bench, corridor_tasks, perfect
from tests.support.scripted import Request, ScriptedTeacher
from tests.support.tiny_models import make_tiny_checkpoint


def response(logprobs: tuple[float, ...], mask: tuple[int, ...]) -> Response:
    return Response((1,), (2,) * len(mask), logprobs, mask, "", None, False, StopReason.EOS, 1, 0)


class TestDistillation:
    def test_an_advantage_is_teacher_minus_behaviour_and_nothing_at_inserted_tokens(self) -> None:
        one = Scored(0, 1, response((-2.5, 0.0, -3.0), (1, 0, 1)), (-1.0, -9.0, -4.0))
        assert Distillation().advantages([one], []) == [(1.5, 0.0, -1.0)]

    def test_what_the_teacher_could_not_score_is_no_sample(self) -> None:
        assert Distillation().advantages([Scored(0, 1, response((-1.0,), (1,)), None)], []) == [NOT_SCORED]

    def test_its_figure_is_the_reverse_kl_over_supervised_tokens(self) -> None:
        samples = [
            replace(sample, token_ids=(1, 2), mask=(1, kept), advantages=advantages)
            for sample, kept, advantages in zip(make_samples(2), (1, 0), ((-1.0, -3.0), (1.0, 50.0)))
        ]
        assert Distillation().figures(samples) == {"reverse_kl": pytest.approx(1.0)}


@dataclass(frozen=True)
class Success(Objective):
    """An episode's success minus the mean of its batch, at every token. Its samples are those that made a move."""

    def advantages(
        self, responses: Sequence[Scored], episodes: Sequence[Episode]
    ) -> Sequence[tuple[float, ...] | str]:
        rewards = [float(bool(episode.final and episode.final.success)) for episode in episodes]
        mean = statistics.fmean(rewards)
        return [
            "invalid move"
            if not episodes[one.episode].turns[one.turn - 1].valid
            else (rewards[one.episode] - mean,) * len(one.response.token_ids)
            for one in responses
        ]

    def figures(self, samples: Sequence[TurnSample]) -> dict[str, float]:
        return {"rewarded": statistics.fmean(sample.advantages[0] > 0 for sample in samples)}


@dataclass(frozen=True)
class Both(Objective):
    """A mixture: the sum of both."""

    weight: float
    needs_teacher = True

    def advantages(
        self, responses: Sequence[Scored], episodes: Sequence[Episode]
    ) -> Sequence[tuple[float, ...] | str]:
        pairs = zip(
            Distillation().advantages(responses, episodes),
            Success().advantages(responses, episodes),
            strict=True,
        )
        return [
            one
            if isinstance(one, str)
            else two
            if isinstance(two, str)
            else tuple(a + self.weight * b for a, b in zip(one, two, strict=True))
            for one, two in pairs
        ]


def rolled_out(objective: Objective) -> tuple[RolloutBatch, ScriptedTeacher]:
    """Corridors of 2 to 5 rooms with 4 turns: the last is not won."""
    made = bench("actfirst", perfect)
    collector = made.playing(turn_limit=4)
    collector = replace(collector, method=replace(collector.method, objective=objective))
    batch = asyncio.run(collector.collect(0, corridor_tasks(4), TrainingPoint()))
    assert isinstance(made.teacher, ScriptedTeacher)
    return batch, made.teacher


def by_episode(batch: RolloutBatch) -> dict[str, set[float]]:
    found: dict[str, set[float]] = {}
    for sample in batch.samples:
        found.setdefault(sample.episode_id, set()).update(sample.advantages)
    return found


def test_rewards_of_a_batch_become_advantages_and_no_teacher_is_asked() -> None:
    batch, teacher = rolled_out(Success())
    assert teacher.scored == []
    assert list(by_episode(batch).values()) == [{0.25}, {0.25}, {0.25}, {-0.75}]


def test_an_objective_says_why_a_response_is_no_sample() -> None:
    def flies(request: Request) -> str:
        return "<action>fly</action>" if request.is_fast else perfect(request)

    made = bench("actfirst", flies)
    collector = replace(made.collector, method=replace(made.collector.method, objective=Success()))
    batch = asyncio.run(collector.collect(0, corridor_tasks(1), TrainingPoint()))
    assert batch.samples == ()
    assert batch.discarded == {"invalid move": batch.stats.full_responses}


def test_a_mixture_adds_up_what_both_say() -> None:
    batch, teacher = rolled_out(Both(2.0))
    assert len(teacher.scored) == len(batch.samples)
    # The scripted student is sampled at -1 and the teacher says -0.5.
    assert list(by_episode(batch).values()) == [{1.0}, {1.0}, {1.0}, {-1.0}]


def test_a_learner_updates_on_another_objective_s_samples(tmp_path: Path) -> None:
    batch, _ = rolled_out(Success())
    learner = Learner(make_tiny_checkpoint(tmp_path / "model"), learning(learning_rate=1e-3))
    stats = learner.update(batch.samples)
    tokens = [advantage for sample in batch.samples for advantage in sample.advantages]
    assert stats.advantage == pytest.approx(statistics.fmean(tokens), rel=1e-5)
    assert stats.grad_norm > 0
    assert Success().figures(batch.samples) == {"rewarded": pytest.approx(9 / 13)}
