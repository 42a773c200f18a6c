"""Gold paths: what the domain cuts, and commands worded as an environment admits them."""

from __future__ import annotations

import pytest

from actfirst.environments.scienceworld.environment import ScienceworldPlayer
from actfirst.environments.scienceworld.gold import (
    GoldPaths,
    answers_only,
    by_teleport,
    long_waits,
    without_doors,
    without_looking,
    without_measuring,
)
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.records import Task
from tests.environments.scienceworld.conftest import first


def gold_actions(world: ScienceworldWorld, task: Task) -> tuple[str, ...]:
    with GoldPaths(world) as paths:
        return paths.reword(task, paths.cut(task, paths.gold(task)))


WALK = (
    "open door to kitchen",
    "go to kitchen",
    "look around",
    "open cupboard",
    "go to hallway",
    "go to outside",
)


def test_a_walk_becomes_one_step() -> None:
    assert by_teleport(without_doors(WALK)) == (
        "teleport to kitchen",
        "look around",
        "open cupboard",
        "teleport to outside",
    )


def test_doors_are_not_opened_but_cupboards_are() -> None:
    assert "open cupboard" in without_doors(WALK)
    assert "open door to kitchen" not in without_doors(WALK)


def test_looking_and_measuring_can_go() -> None:
    commands = ("look around", "read recipe", "examine ice", "use thermometer on ice", "focus on ice")
    assert without_looking(commands) == commands[2:]
    assert without_measuring(commands) == ("look around", "read recipe", "focus on ice")


def test_where_an_experiment_only_tells_the_answer_the_answer_is_enough() -> None:
    commands = ("go to workshop", "activate stopwatch in inventory", "wait", "focus on inclined plane a")
    assert answers_only(commands) == ("go to workshop", "focus on inclined plane a")


def test_time_that_passes_is_kept() -> None:
    """wait1 takes 2 moves, measuring 1, wait 11: 4 + 3 = 7 moves need one wait, 24 need three."""
    few = (
        "activate stove",
        "wait1",
        "examine ice",
        "use thermometer on ice",
        "examine ice",
        "wait1",
        "focus on ice",
    )
    assert long_waits(few) == ("activate stove", "wait", "focus on ice")
    assert long_waits(("wait1",) * 12) == ("wait",) * 3
    assert long_waits(("wait1", "eat ice", "wait1")) == ("wait1", "eat ice", "wait1")


@pytest.mark.parametrize(
    ("kind", "longest"), [("lifespan-shortest-lived", 2), ("find-plant", 5), ("use-thermometer", 8)]
)
def test_a_gold_path_is_cut_admitted_and_wins(
    world: ScienceworldWorld, environment: ScienceworldPlayer, kind: str, longest: int
) -> None:
    task = first(world, kind)
    actions = gold_actions(world, task)
    assert len(actions) <= longest
    _, seen = environment.reset(task)
    for action in actions:
        assert action in seen.admissible
        seen = environment.step(action)
    assert seen.success


def test_commands_that_do_not_win_are_left_as_they_are(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    task = first(world, "find-plant")
    commands = ("open door to kitchen", "go to kitchen", "look around")
    with GoldPaths(world) as paths:
        assert not paths.play(task, commands).won
        assert paths.cut(task, commands) == commands


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["boil", "test-conductivity", "power-component", "grow-plant", "melt"])
def test_longer_gold_paths_fit_into_an_episode(
    world: ScienceworldWorld, environment: ScienceworldPlayer, kind: str
) -> None:
    task = first(world, kind)
    actions = gold_actions(world, task)
    assert len(actions) <= world.turn_limit
    _, seen = environment.reset(task)
    for action in actions:
        assert action in seen.admissible
        seen = environment.step(action)
    assert seen.success
