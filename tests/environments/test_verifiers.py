"""Environments of verifiers: the contract, what is refused, and a short run."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.environments.base import World
from actfirst.environments.registry import open_world
from actfirst.environments.verifiers.section import VerifiersSection
from actfirst.errors import ConfigError, EnvironmentFailure
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.environments.contract import AnyTextContract
from tests.support.tiny_run import overrides

pytest.importorskip("verifiers")

TASKSETS = Path(__file__).parents[1] / "support" / "tasksets"


@pytest.fixture(autouse=True)
def tasksets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TASKSETS))


def hunt(**more: object) -> VerifiersSection:
    given = {"id": "number-hunt", "train_tasks": 14, "eval_tasks": 7, **more}
    return VerifiersSection.model_validate(given)


class TestContract(AnyTextContract):
    turns = 5
    moves = ("1", "2", "3", "4", "5", "6", "7")

    @pytest.fixture
    def world(self) -> World:
        return open_world(hunt())


def test_replies_are_actions_and_what_the_environment_says_is_seen() -> None:
    world = open_world(hunt())
    environment = world.open()
    instruction, first = environment.reset(world.tasks("train")[2])  # the number is 4
    assert instruction == "Find a number between 1 and 7."
    assert first.text == "Which number is it?"
    seen = [environment.step(action) for action in ("6", "none", "4")]
    assert [one.text for one in seen[:2]] == ["It is lower than 6.", "Say a number."]
    assert (seen[-1].done, seen[-1].success, seen[-1].score) == (True, True, 100.0)


def test_rewards_of_the_task_and_of_the_environment_are_summed_up() -> None:
    world = open_world(hunt())
    environment = world.open()
    environment.reset(world.tasks("train")[2])
    last = [environment.step(action) for action in ("1", "2", "3", "5", "4")][-1]
    assert (last.done, last.success, last.score) == (True, False, 50.0), "found, but late"
    assert environment.step("4").done


def test_a_plain_task_is_one_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Played by verifiers' own environment for tasks that ask once: its reward is that of the task alone."""
    environment = open_world(hunt(pair="single-agent", success_reward=0.5))
    played = environment.open()
    _, first = played.reset(environment.tasks("train")[2])
    assert first.text == "The task begins."
    assert played.step("4").success
    played.reset(environment.tasks("train")[2])
    assert played.step("5").score == 0.0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"id": "no-such-taskset"}, "no-such-taskset"),
        ({"options": {"no_such": 1}}, "no_such"),
        ({"train_tasks": 15}, "has 21 tasks"),
        ({"pair": "user-sim"}, "2 agents"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        open_world(hunt(**change))


def test_an_environment_that_hangs_is_a_failure_of_its_episode() -> None:
    import number_hunt

    async def forever(self: object, task: object, agents: object) -> None:
        import asyncio

        await asyncio.Event().wait()

    world = open_world(hunt(deadline=0.2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_hunt.HuntEnv, "run", forever)
        with pytest.raises(EnvironmentFailure, match="did not answer within"):
            world.open().reset(world.tasks("train")[0])


@pytest.mark.slow
def test_a_short_run(tmp_path: Path) -> None:
    """ActFirst-OPD with references that rollouts find: nobody has demonstrated anything here."""
    table = 'environment={name="verifiers", id="number-hunt", turn_limit=4, train_tasks=14, eval_tasks=4}'
    given = [one for one in overrides(tmp_path) if not one.startswith(("environment.", "evaluation.splits"))]
    more = [
        "evaluation.splits=['test']",
        "references.source=rollouts",
        "run.updates=2",
        "evaluation.at_end=true",
    ]
    config = resolve("pocket", [*given, table, *more])
    assert train(config, tmp_path / "run").updates == 2
    run = open_run(tmp_path / "run")
    assert {line.task.kind for line in run.episodes()} == {"number-hunt"}
    assert run.final_success is not None
