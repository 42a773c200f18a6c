"""Task order: every task once per epoch, the same order for the same seed, a cursor that is one number."""

from __future__ import annotations

import pytest

from actfirst.errors import ConfigError
from actfirst.records import Task
from actfirst.rollout.task_order import TaskOrder

TASKS = tuple(Task(f"t{n}", "train", "x") for n in range(10))


def test_an_epoch_visits_every_task_once_and_batches_run_across_epochs() -> None:
    order = TaskOrder(TASKS, per_batch=4, seed=1)
    visited = [task.id for index in range(5) for task in order.batch(index)]
    assert sorted(visited[:10]) == sorted(visited[10:]) == sorted(task.id for task in TASKS)
    assert visited[:10] != visited[10:]


def test_the_order_depends_on_the_seed_alone() -> None:
    assert TaskOrder(TASKS, 4, 1).batch(3) == TaskOrder(TASKS, 4, 1).batch(3)
    assert TaskOrder(TASKS, 10, 1).batch(0) != TaskOrder(TASKS, 10, 2).batch(0)


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="no tasks"):
        TaskOrder((), 4, 1)


def test_a_group_is_its_task_several_times_in_one_batch() -> None:
    plain, grouped = TaskOrder(TASKS, 3, 1), TaskOrder(TASKS, 3, 1, group_size=4)
    assert grouped.batch(2) == [task for task in plain.batch(2) for _ in range(4)]
