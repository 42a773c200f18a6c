"""The paper's split of ScienceWorld (appendix "Benchmarks"), and what a recipe may change. Starts no simulator."""

from __future__ import annotations

import pickle

import pytest

from actfirst.config.load import resolve
from actfirst.environments.registry import hosting, open_world
from actfirst.environments.scienceworld.section import ScienceworldSection
from actfirst.environments.scienceworld.tasks import CHANCE, TRAINING, VARIATIONS, is_random
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.errors import ConfigError, TaskError
from actfirst.records import Task


def test_training_uses_the_first_half_of_the_variations_of_17_types() -> None:
    tasks = ScienceworldWorld().tasks("train")
    assert len(tasks) == 2294
    assert len({task.kind for task in tasks}) == 17
    boil = [task.id for task in tasks if task.kind == "boil"]
    assert boil == [f"scienceworld/train/boil/{variation}" for variation in range(15)]


def test_evaluation_uses_the_last_five_variations_of_all_30_types() -> None:
    tasks = ScienceworldWorld().tasks("eval")
    assert len(tasks) == 150
    assert len({task.kind for task in tasks}) == 30
    boil = [task.id for task in tasks if task.kind == "boil"]
    assert boil == [f"scienceworld/eval/boil/{variation}" for variation in range(25, 30)]


def test_85_evaluation_tasks_are_of_training_types_and_65_of_others() -> None:
    seen = [task.kind in TRAINING for task in ScienceworldWorld().tasks("eval")]
    assert (sum(seen), len(seen) - sum(seen)) == (85, 65)


def test_no_task_is_in_both_splits() -> None:
    world = ScienceworldWorld()
    both = [{task.id.split("/", 2)[2] for task in world.tasks(split)} for split in world.splits()]
    assert not both[0] & both[1]


def test_a_recipe_may_choose_task_types() -> None:
    world = open_world(ScienceworldSection(kinds=("freeze", "boil"), turn_limit=12))
    assert [len(world.tasks(split)) for split in ("train", "eval")] == [15, 10]
    assert world.turn_limit == 12


def test_evaluation_may_use_more_variations_but_none_of_training() -> None:
    world = open_world(ScienceworldSection(kinds=("boil", "freeze"), eval_variations=20))
    variations = {
        kind: [task for task in world.tasks("eval") if task.kind == kind] for kind in ("boil", "freeze")
    }
    assert [task.id for task in variations["boil"]] == [f"scienceworld/eval/boil/{n}" for n in range(15, 30)]
    assert len(variations["freeze"]) == 20, "it is not trained on"


def test_types_that_are_not_trained_on_have_no_training_split() -> None:
    world = ScienceworldWorld(["freeze"])
    assert world.splits() == ("eval",)
    with pytest.raises(TaskError, match="no split 'train' with these task types"):
        world.tasks("train")


def test_an_unknown_task_type_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"environment\.kinds: ScienceWorld has no task type 'bowl'; it has boil"
    ):
        ScienceworldWorld(["bowl"])


@pytest.mark.parametrize("name", ["boil/30", "boil/x", "boil", "nowhere/1"])
def test_a_task_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(TaskError, match="scienceworld has no task"):
        ScienceworldWorld().assignment(Task(f"scienceworld/train/{name}", "train", "boil"))


def test_references_depend_on_the_seed_and_not_on_the_choice_of_types() -> None:
    worlds = [ScienceworldWorld(), ScienceworldWorld(["boil"]), ScienceworldWorld(seed=1)]
    assert worlds[0].fingerprint == worlds[1].fingerprint != worlds[2].fingerprint


def test_seeds_differ_between_tasks_and_steps_but_names_are_drawn_once() -> None:
    world = ScienceworldWorld()
    one, two = (world.assignment(task) for task in world.tasks("train")[:2])
    assert len({one.naming_seed, two.naming_seed, one.step_seed(0), one.step_seed(1), two.step_seed(0)}) == 5
    assert one == world.assignment(world.tasks("train")[0])


def test_types_that_leave_something_to_chance_are_known_by_name() -> None:
    world = ScienceworldWorld()
    assert set(VARIATIONS) > CHANCE
    assert sum(is_random(task) for task in world.tasks("train")) == 70


def test_it_is_played_in_worker_processes_and_can_be_sent_there() -> None:
    assert hosting(ScienceworldSection()).processes
    world = pickle.loads(pickle.dumps(ScienceworldWorld(["boil"], seed=3)))
    assert (world.fingerprint, len(world.tasks("train"))) == (ScienceworldWorld(seed=3).fingerprint, 15)


def test_the_papers_recipe_plays_the_papers_split() -> None:
    world = open_world(resolve("paper/scienceworld-0.6b").environment)
    assert (len(world.tasks("train")), len(world.tasks("eval")), world.turn_limit) == (2294, 150, 30)


def test_the_small_recipe_has_training_and_evaluation_tasks() -> None:
    config = resolve("scienceworld-small")
    world = open_world(config.environment)
    assert {task.kind for task in world.tasks("train")} == set(config.environment.kinds)  # type: ignore[union-attr]
    assert set(config.evaluation.splits) <= set(world.splits())
