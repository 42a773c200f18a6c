"""References from the rollouts of training itself, where nobody has demonstrated anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.environments.registry import kind_of
from actfirst.errors import EnvironmentFailure
from actfirst.methods.acting import Acting, Actor, EpisodeTools, Guided, Move, WithoutReference
from actfirst.methods.table import Method, ResponseTiming, register_method
from actfirst.records import ActionSource, Episode, Observation, Task, Turn, TurnContext, Verdict
from actfirst.references.live import LiveReferences
from actfirst.references.rollouts import RolloutReferences
from actfirst.rollout.stage import open_references, open_stage
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.support.tiny_run import tiny_config
from tests.support.toy_world import CorridorEnvironment, CorridorReferences, CorridorWorld

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


def test_a_checkpoint_keeps_the_solutions_and_only_those() -> None:
    references = RolloutReferences(WORLD)
    references.learn([episode(DETOUR), episode(("go east",), task=WORLD.tasks("train")[0])])
    assert references.found == {TASK.id: DETOUR}
    other = RolloutReferences(WORLD)
    other.learn([episode(STRAIGHT)])
    other.restore(references.found)
    assert other.coverage(WORLD.tasks("train")) == 1 / 40
    assert other.get(TASK) == references.get(TASK)


def test_a_world_that_fails_meanwhile_costs_the_reference_and_not_the_run() -> None:
    class Broken(CorridorWorld):
        def open(self) -> CorridorEnvironment:
            raise EnvironmentFailure("gone")

    references = RolloutReferences(Broken())
    references.learn([episode(STRAIGHT)])
    assert references.get(TASK) is None
    assert references.found == {}


def test_a_task_without_reference_is_played_as_the_recipe_says(tmp_path: Path) -> None:
    """replay-100 alone would end a rollout that has no reference before its first turn."""
    wanted = ("references.source=rollouts", "references.otherwise=think", "rollout.method=replay-100")
    train(tiny_config(tmp_path, *wanted, "run.updates=1"), tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert {turn.source for line in run.episodes() for turn in line.turns} == {ActionSource.THINK}
    assert run.batches[0].covered == 0.0


@dataclass(frozen=True)
class Demonstrating(Acting):
    """Plays what solves the task, by the first observation."""

    solutions: Mapping[str, tuple[str, ...]]

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Demonstrator(self.solutions)


class _Demonstrator(Actor):
    def __init__(self, solutions: Mapping[str, tuple[str, ...]]) -> None:
        self._solutions = solutions
        self._solution: Iterator[str] = iter(())

    async def act(self, context: TurnContext, seed: int) -> Move:
        if context.turn == 1:
            self._solution = iter(self._solutions[context.instruction + context.observation.text])
        return Move(next(self._solution), ActionSource.NEXT_ACTION)


def test_a_resumed_run_is_guided_by_what_was_found_before(tmp_path: Path) -> None:
    def config(updates: int) -> Config:
        few = ("environment.train_tasks=4", "environment.turn_limit=20", "learner.batch_size=4")
        method = ("rollout.method=demonstrated", "references.source=rollouts", "checkpoint.every=1")
        return tiny_config(tmp_path, *few, *method, f"run.updates={updates}")

    register_method("demonstrated", Method("", Guided(), ResponseTiming.DEFERRED))
    stage = open_stage(config(1).environment)
    live, environment, solutions = LiveReferences(stage.kind, stage.world, "best"), stage.world.open(), {}
    for task in stage.world.tasks("train"):
        instruction, first = environment.reset(task)
        reference = live.get(task)
        assert reference is not None
        solutions[instruction + first.text] = tuple(step.action for step in reference.steps)
    acting = WithoutReference(Guided(), Demonstrating(solutions))
    register_method("demonstrated", Method("", acting, ResponseTiming.DEFERRED))
    train(config(1), tmp_path / "run")
    before = open_run(tmp_path / "run").batches
    assert [(line.succeeded, line.covered) for line in before[:1]] == [(4, 100.0)]
    train(config(4), tmp_path / "run", resume=True)
    after = open_run(tmp_path / "run").batches[len(before) :]
    assert after
    assert {(line.alignment.guided, line.covered) for line in after} == {(4, 100.0)}


def test_a_recipe_asks_for_them(tmp_path: Path) -> None:
    config = resolve("pocket", ["references.source=rollouts"])
    assert isinstance(open_references(open_stage(config.environment), config.references), RolloutReferences)
    assert kind_of(config.environment).name == "pocket"


def test_a_run_begins_without_guidance(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, "references.source=rollouts", "run.updates=1")
    assert train(config, tmp_path / "run").updates == 1
    first = next(iter(open_run(tmp_path / "run").batches))
    assert first.alignment.guided == 0
