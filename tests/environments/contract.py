"""The contract that every environment passes, whatever it plays.

A test module subclasses `EnvironmentContract`, names it `Test...`, and provides the fixture `world`. Where tests share
a process for speed, it also provides the fixture `unshared`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

import psutil
import pytest

from actfirst.environments.base import Environment, World
from actfirst.environments.general.rules import GeneralRules
from actfirst.environments.registry import find_kind
from actfirst.errors import TaskError
from actfirst.records import Observation, Task

INVALID = "juggle with all of it at once"


class EnvironmentContract:
    """What `environments/base.py` promises, as tests. `sample` tasks of each split are played for `turns` turns.

    `looks` are actions that show the state where an observation does not name it. `unlisted` is an action that makes
    sense to the environment on its first page and is not on the list there.
    """

    sample = 3
    turns = 12
    looks: tuple[str, ...] = ()
    unlisted = INVALID

    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError

    @pytest.fixture
    def unshared(self, world: World) -> World:
        """A world of which nothing is open yet."""
        return world

    @pytest.fixture
    def environment(self, world: World) -> Iterator[Environment]:
        environment = world.open()
        yield environment
        environment.close()

    @pytest.fixture
    def tasks(self, world: World) -> list[Task]:
        return [task for split in world.splits() for task in world.tasks(split)[: self.sample]]

    def choices(self, seen: Observation) -> Sequence[str]:
        """What a walk may do next."""
        return seen.admissible

    def walk(self, environment: Environment, task: Task) -> list[Observation]:
        """A random walk over admissible actions that depends on the task only."""
        rng = random.Random(task.id)
        _, observation = environment.reset(task)
        seen = [observation]
        while len(seen) <= self.turns and not observation.done:
            observation = environment.step(rng.choice(self.choices(observation)))
            seen.append(observation)
        return seen

    def go_on(self, environment: Environment, seen: Observation) -> list[Observation]:
        """What follows on an observation."""
        if seen.done:
            return []
        actions = self.looks or (random.Random(seen.state).choice(seen.admissible),)
        return [environment.step(action) for action in actions]

    def test_task_ids_are_unique_and_in_a_stable_order(self, world: World) -> None:
        ids = [task.id for split in world.splits() for task in world.tasks(split)]
        assert len(set(ids)) == len(ids) > 0
        assert ids == [task.id for split in world.splits() for task in world.tasks(split)]

    def test_every_task_knows_its_split(self, world: World) -> None:
        assert all(task.split == split for split in world.splits() for task in world.tasks(split))

    def test_an_unknown_split_or_task_is_a_task_error(self, world: World, environment: Environment) -> None:
        with pytest.raises(TaskError):
            world.tasks("no such split")
        split = world.splits()[0]
        with pytest.raises(TaskError):
            environment.reset(Task(f"{world.name}/{split}/nowhere", split, "pick"))

    def test_the_instruction_is_not_empty(self, environment: Environment, tasks: list[Task]) -> None:
        for task in tasks:
            instruction, observation = environment.reset(task)
            assert instruction.strip()
            assert observation.text.strip()
            assert not observation.done

    def test_the_same_actions_give_the_same_observations(
        self, world: World, environment: Environment, tasks: list[Task]
    ) -> None:
        other = world.open()
        for task in tasks:
            first = self.walk(environment, task)
            assert first == self.walk(environment, task)
            assert first == self.walk(other, task)
        other.close()

    def test_admissible_actions_are_accepted(self, environment: Environment, tasks: list[Task]) -> None:
        for task in tasks:
            _, first = environment.reset(task)
            refusal = environment.step(INVALID).text
            for action in first.admissible:
                environment.reset(task)
                assert environment.step(action).text != refusal, action

    def test_what_is_not_listed_is_carried_out_only_where_the_kind_says_so(
        self, world: World, environment: Environment, tasks: list[Task]
    ) -> None:
        for task in tasks:
            _, first = environment.reset(task)
            assert self.unlisted not in first.admissible
            refusal = environment.step(INVALID).text
            carried_out = environment.step(self.unlisted).text != refusal
            assert carried_out is find_kind(world.name).executes_unlisted

    def test_nonsense_changes_nothing(self, environment: Environment, tasks: list[Task]) -> None:
        unfinished = 0
        for task in tasks:
            before = self.walk(environment, task)[-1]
            expected = self.go_on(environment, before)
            unfinished += bool(expected)
            self.walk(environment, task)
            after = environment.step(INVALID)
            assert (after.state, after.admissible) == (before.state, before.admissible)
            assert (after.done, after.success, after.score) == (before.done, before.success, before.score)
            assert self.go_on(environment, before) == expected
        assert unfinished

    def test_snapshots_never_alias(self, environment: Environment, tasks: list[Task]) -> None:
        _, kept = environment.reset(tasks[0])
        copy = (kept.text, tuple(kept.admissible), kept.state)
        self.walk(environment, tasks[0])
        self.walk(environment, tasks[-1])
        assert (kept.text, kept.admissible, kept.state) == copy

    def test_two_environments_do_not_disturb_each_other(self, world: World, tasks: list[Task]) -> None:
        first, second = world.open(), world.open()
        alone = self.walk(first, tasks[0])
        rng = random.Random(tasks[0].id)
        _, observation = first.reset(tasks[0])
        _, noise = second.reset(tasks[0])
        for expected in alone[1:]:
            observation = first.step(rng.choice(self.choices(observation)))
            noise = second.step(self.choices(noise)[-1])
            assert observation == expected
        first.close()
        second.close()

    def test_score_and_success_agree(self, environment: Environment, tasks: list[Task]) -> None:
        for task in tasks:
            for observation in self.walk(environment, task):
                assert 0 <= observation.score <= 100
                assert not observation.success or observation.done

    def test_closing_twice_is_allowed_and_does_not_touch_others(self, world: World, tasks: list[Task]) -> None:
        environment, other = world.open(), world.open()
        begun = environment.reset(tasks[0])
        environment.close()
        environment.close()
        assert other.reset(tasks[0]) == begun
        other.close()

    def test_close_and_restart_leave_no_process_behind(self, unshared: World) -> None:
        before, task = descendants(), unshared.tasks(unshared.splits()[0])[0]
        for _ in range(2):
            first, second = unshared.open(), unshared.open()
            first.reset(task)
            first.close()
            second.close()
            while descendants() - before:  # as long as the test may take
                time.sleep(0.05)


class AnyTextContract(EnvironmentContract):
    """For a world that takes any text: it names no admissible action and no state, so there is no nonsense, and the
    rules call every action valid. `moves` are what a walk chooses from."""

    moves: tuple[str, ...]

    def choices(self, seen: Observation) -> Sequence[str]:
        return self.moves

    def test_admissible_actions_are_accepted(self, environment: Environment, tasks: list[Task]) -> None:
        assert all(environment.reset(task)[1].admissible == () for task in tasks)

    def test_what_is_not_listed_is_carried_out_only_where_the_kind_says_so(
        self, world: World, environment: Environment, tasks: list[Task]
    ) -> None:
        assert find_kind(world.name).executes_unlisted

    def test_nonsense_changes_nothing(self, environment: Environment, tasks: list[Task]) -> None:
        for task in tasks:
            _, first = environment.reset(task)
            assert first.state == ""
            assert GeneralRules().valid(INVALID, first)
            assert environment.step(INVALID).text


def descendants() -> set[psutil.Process]:
    """Every process that this one has started, or that was started by one of them."""
    return set(psutil.Process().children(recursive=True))
