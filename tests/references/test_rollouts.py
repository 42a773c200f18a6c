"""References from the rollouts of training itself, where nobody has demonstrated anything."""

from __future__ import annotations

from pathlib import Path

from actfirst.config.load import resolve
from actfirst.environments.registry import kind_of
from actfirst.records import ActionSource, Episode, Observation, Task, Turn, Verdict
from actfirst.references.rollouts import RolloutReferences
from actfirst.rollout.stage import open_references, open_stage
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.support.tiny_run import tiny_config
from tests.support.toy_world import CorridorReferences, CorridorWorld

WORLD = CorridorWorld()
TASK = next(task for task in WORLD.tasks("train") if task.kind == "rooms3")
DETOUR = ("go east", "go west", "go east", "go east", "pull lever")
STRAIGHT = ("go east", "go east", "pull lever")


def episode(
    actions: tuple[str, ...], *, success: bool = True, error: str | None = None, task: Task = TASK
) -> Episode:
    turns = tuple(
        Turn(n, "", action, ActionSource.NEXT_ACTION, action != "fly", Verdict.UNCHECKED, (), None, "", 0.0)
        for n, action in enumerate(actions, start=1)
    )
    final = Observation("", (), done=success, success=success, score=100.0 if success else 0.0)
    return Episode("e", task, 0, turns, final, False, 0, 0.0, error)


def actions_of(references: RolloutReferences) -> tuple[str, ...] | None:
    found = references.get(TASK)
    return None if found is None else tuple(step.action for step in found.steps)


def test_a_task_has_no_reference_until_it_is_solved_and_then_the_shortest() -> None:
    references = RolloutReferences(WORLD)
    assert references.get(TASK) is None
    references.learn([episode(STRAIGHT[:2], success=False), episode(STRAIGHT, error="cut short")])
    assert references.get(TASK) is None
    references.learn([episode(DETOUR)])
    assert actions_of(references) == DETOUR
    references.learn([episode(STRAIGHT)])
    assert actions_of(references) == STRAIGHT
    references.learn([episode(DETOUR)])
    assert actions_of(references) == STRAIGHT
    found = references.get(TASK)
    assert found is not None
    assert found.source == "rollouts"
    assert found.steps[0].observation.admissible == ("go east", "go west")


def test_what_had_no_effect_is_left_out() -> None:
    references = RolloutReferences(WORLD)
    references.learn([episode(("fly", *STRAIGHT))])
    assert actions_of(references) == STRAIGHT


def test_a_solution_that_does_not_replay_is_no_reference() -> None:
    references = RolloutReferences(WORLD)
    references.learn([episode(("go east",))])
    assert references.get(TASK) is None


def test_what_is_known_already_counts_until_there_is_a_shorter_one() -> None:
    references = RolloutReferences(WORLD, CorridorReferences())
    assert references.coverage(WORLD.tasks("train")) == 1.0
    references.learn([episode(DETOUR)])
    assert actions_of(references) == ("hop east", "hop east", "pull lever")


def test_coverage_is_the_share_of_tasks_with_a_reference() -> None:
    references = RolloutReferences(WORLD)
    references.learn([episode(STRAIGHT)])
    assert references.coverage(WORLD.tasks("train")) == 1 / 40


def test_a_recipe_asks_for_them(tmp_path: Path) -> None:
    config = resolve("pocket", ["references.source=rollouts"])
    assert isinstance(open_references(open_stage(config.environment), config.references), RolloutReferences)
    assert kind_of(config.environment).name == "pocket"


def test_a_run_begins_without_guidance(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, "references.source=rollouts", "run.updates=1")
    assert train(config, tmp_path / "run").updates == 1
    first = next(iter(open_run(tmp_path / "run").batches))
    assert first.alignment.guided == 0
