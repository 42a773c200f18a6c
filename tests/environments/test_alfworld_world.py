"""ALFWorld over a folder of games: the contract, the folder layout, and the published games where they are."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from actfirst.environments.alfworld.engine import Engine
from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.alfworld.solver import solve
from actfirst.environments.alfworld.world import KINDS, AlfworldWorld
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.registry import open_world
from actfirst.errors import EnvironmentFailure, TaskError
from actfirst.records import Task
from tests.environments import published
from tests.environments.contract import EnvironmentContract

LONG = {short: long for long, short in KINDS.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pocket games under the folder names of upstream, all six kinds in two splits."""
    root = tmp_path_factory.mktemp("games")
    world = PocketWorld(train=6, unseen=6)
    for split, there in (("train", "train"), ("unseen", "valid_unseen")):
        for task in world.tasks(split):
            written = world.write(task, root / "written" / split)
            home = root / "json_2.1.1" / there / f"{LONG[task.kind]}-Thing-None-Place-1" / "trial_1"
            home.mkdir(parents=True)
            written.rename(home / "game.tw-pddl")
    return root


class TestAlfworldContract(EnvironmentContract):
    @pytest.fixture
    def world(self, folder: Path) -> AlfworldWorld:
        return AlfworldWorld(folder / "json_2.1.1")


def test_splits_and_kinds_come_from_the_folder_names(folder: Path) -> None:
    world = AlfworldWorld(folder / "json_2.1.1")
    assert world.splits() == ("train", "valid_unseen")
    assert sorted(task.kind for task in world.tasks("train")) == [
        "clean",
        "cool",
        "heat",
        "look",
        "pick",
        "pick2",
    ]
    assert world.tasks("train")[0] == Task(
        "alfworld/train/look_at_obj_in_light-Thing-None-Place-1/trial_1", "train", "look"
    )
    assert (world.name, world.turn_limit) == ("alfworld", 30)


def test_the_folder_above_is_accepted_too(folder: Path) -> None:
    assert AlfworldWorld(folder).folder == folder / "json_2.1.1"


def test_a_folder_without_games_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="alfworld-download"):
        AlfworldWorld(tmp_path)


def test_tasks_that_text_cannot_finish_are_left_out(tmp_path: Path) -> None:
    world = PocketWorld()
    for name in (
        "pick_and_place_simple-A-None-B-1",
        "pick_two_obj_and_place-SlicedA-None-B-1",
        "movable_x-A-None-B-1",
    ):
        world.write(world.tasks("train")[0], tmp_path / "train" / name)
    assert [task.id.split("/")[2] for task in AlfworldWorld(tmp_path).tasks("train")] == [
        "pick_and_place_simple-A-None-B-1"
    ]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train" / "pick_and_place_simple-A-None-B-1" / "trial_1" / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    world = AlfworldWorld(tmp_path)
    with pytest.raises(EnvironmentFailure, match=r"game\.tw-pddl"):
        world.open().reset(world.tasks("train")[0])


def test_the_fingerprint_changes_with_the_training_games_only(folder: Path, tmp_path: Path) -> None:
    pocket = PocketWorld()
    pocket.write(pocket.tasks("train")[0], tmp_path / "train" / "pick_and_place_simple-A-None-B-1")
    before = AlfworldWorld(tmp_path).fingerprint
    pocket.write(pocket.tasks("train")[0], tmp_path / "valid_seen" / "pick_and_place_simple-A-None-B-1")
    assert AlfworldWorld(tmp_path).fingerprint == before
    pocket.write(pocket.tasks("train")[6], tmp_path / "train" / "pick_and_place_simple-A-None-B-1")
    assert AlfworldWorld(tmp_path).fingerprint != before


def test_a_world_can_be_sent_to_another_process(folder: Path) -> None:
    world = pickle.loads(pickle.dumps(AlfworldWorld(folder)))
    assert world.open().reset(world.tasks("train")[0])[1].admissible


def test_stepping_before_reset_or_after_close_is_an_environment_failure(folder: Path) -> None:
    environment = AlfworldWorld(folder).open()
    with pytest.raises(EnvironmentFailure, match="reset"):
        environment.step("look")


def test_help_is_not_offered_but_answered(folder: Path) -> None:
    world = AlfworldWorld(folder)
    environment = world.open()
    _, observation = environment.reset(world.tasks("train")[0])
    assert "help" not in observation.admissible
    assert environment.step("help").text.startswith("Available commands:")


def test_winning_ends_the_episode_with_full_score(folder: Path) -> None:
    world = AlfworldWorld(folder)
    for task in world.tasks("train"):
        environment = world.open()
        environment.reset(task)
        *before, last = [environment.step(command) for command in world.game(task).walkthrough]
        assert (last.done, last.success, last.score) == (True, True, 100.0)
        assert not any(observation.done or observation.score for observation in before)


def test_a_task_of_another_world_is_refused(folder: Path) -> None:
    with pytest.raises(TaskError):
        AlfworldWorld(folder).game(Task("pocket/train/000000-pick", "train", "pick"))


@pytest.mark.skipif(not published.ARCHIVE.is_file(), reason=published.ABSENT)
class TestPublishedGames:
    @pytest.fixture
    def world(self) -> AlfworldWorld:
        return AlfworldWorld(published.unpacked())

    def test_their_walkthroughs_win(self, world: AlfworldWorld) -> None:
        for task in world.tasks("valid_seen"):
            engine = Engine(world.game(task))
            for command in world.game(task).walkthrough:
                assert command in engine.commands
                engine.step(command)
            assert engine.won, task.id

    def test_the_solver_needs_no_more_steps_than_the_planner(self, world: AlfworldWorld) -> None:
        for task in world.tasks("valid_seen"):
            game = world.game(task)
            assert len(solve(game)) <= len(game.walkthrough), task.id

    def test_there_are_games_of_all_kinds(self, world: AlfworldWorld) -> None:
        assert len(world.tasks("valid_seen")) == 14
        assert len({task.kind for task in world.tasks("valid_seen")}) >= 5


@pytest.mark.skipif(not published.ARCHIVE.is_file(), reason=published.ABSENT)
class TestPublishedContract(EnvironmentContract):
    sample = 4
    turns = 20

    @pytest.fixture
    def world(self) -> AlfworldWorld:
        return AlfworldWorld(published.unpacked())


def test_a_recipe_may_name_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert open_world(AlfworldSection(folder="~/json_2.1.1")).splits() == ("train", "valid_unseen")
