"""Environments of Gymnasium: the contract, and a short run on a real one of its own (FrozenLake)."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.environments.base import World
from actfirst.environments.general.rules import GeneralRules
from actfirst.environments.gymnasium.section import GymnasiumSection
from actfirst.environments.registry import open_world
from actfirst.environments.rules import Reason
from actfirst.errors import ConfigError
from actfirst.records import Observation
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.environments.contract import EnvironmentContract
from tests.support.tiny_run import overrides

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
        'environment={name="gymnasium", id="FrozenLake-v1", options={is_slippery=false}, turn_limit=4, '
        'actions=["left", "down", "right", "up"], train_tasks=20, eval_tasks=4}'
    )
    given = [one for one in overrides(tmp_path) if not one.startswith(("environment.", "evaluation.splits"))]
    config = resolve(
        "pocket", [*given, table, "evaluation.splits=['test']", "references.source=rollouts", "run.updates=2"]
    )
    assert train(config, tmp_path / "run").updates == 2
    assert {line.task.kind for line in open_run(tmp_path / "run").episodes()} == {"FrozenLake-v1"}
