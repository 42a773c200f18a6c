"""Evaluation plays think-then-act without references, one trajectory per task and seed."""

from __future__ import annotations

import asyncio

import pytest

from actfirst.environments.pool.inline import InlinePool
from actfirst.errors import ConfigError, TaskError
from actfirst.evaluate.protocol import Evaluator, choose_tasks
from tests.support.collecting import bench, perfect
from tests.support.kinds import RULES
from tests.support.toy_world import CorridorWorld

WORLD = CorridorWorld()


def evaluator() -> Evaluator:
    return Evaluator(InlinePool(WORLD), RULES["alfworld"], WORLD.turn_limit, batch_tasks=3)


def test_every_task_once_per_seed_by_think_then_act() -> None:
    made = bench("vanilla", perfect)
    tasks = choose_tasks(WORLD, ["seen"], 8)
    result = asyncio.run(evaluator().evaluate(made.collector.policy, tasks, (42, 43, 44)))
    assert result.overall.success_rate.per_seed == (100.0, 100.0, 100.0)
    assert result.overall.tasks == 8
    assert not any(request.is_fast or request.is_inverse_dynamics for request in made.engine.requests)
    assert len({request.sampling.seed for request in made.engine.requests}) == len(made.engine.requests)


def test_a_student_that_never_acts_fails_with_all_its_turns_used() -> None:
    made = bench("vanilla", lambda request: "<think>\nhmm\n</think>")
    tasks = choose_tasks(WORLD, ["seen"], 2)
    result = asyncio.run(evaluator().evaluate(made.collector.policy, tasks, (42,)))
    assert result.overall.success_rate.mean == 0.0
    assert result.overall.rounds.mean == WORLD.turn_limit


def test_tasks_are_drawn_once_and_for_all_and_unknown_splits_are_refused() -> None:
    drawn = choose_tasks(WORLD, ["seen"], 12)
    assert drawn == choose_tasks(WORLD, ["seen"], 12)
    assert len(set(drawn)) == 12
    assert {task.kind for task in drawn} == {"rooms2", "rooms3", "rooms4", "rooms5"}
    assert len(choose_tasks(WORLD, ["seen", "train"], 0)) == 80
    with pytest.raises(TaskError, match="unknown split 'unseen'"):
        choose_tasks(WORLD, ["unseen"], 4)
    with pytest.raises(ConfigError, match="nothing to evaluate"):
        asyncio.run(evaluator().evaluate(bench("vanilla", perfect).collector.policy, [], (42,)))
