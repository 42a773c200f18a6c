"""Environments of verifiers: the contract, what is refused, and short runs, one on a game that it ships."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actfirst.environments.base import World
from actfirst.environments.registry import open_world
from actfirst.environments.verifiers.section import VerifiersSection
from actfirst.errors import ConfigError, EnvironmentFailure
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.environments.contract import AnyTextContract
from tests.support.tiny_run import world_config

pytest.importorskip("verifiers")

WORDS = ("lamp", "shelf", "window")  # each of another length
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
    table = 'name="verifiers", id="number-hunt", turn_limit=4, train_tasks=14, eval_tasks=4'
    assert train(world_config(tmp_path, table), tmp_path / "run").updates == 2
    run = open_run(tmp_path / "run")
    assert {line.task.kind for line in run.episodes()} == {"number-hunt"}
    assert run.final_success is not None


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hangman as verifiers ships it (`verifiers[ta]`) draws from a list that NLTK downloads: a short one instead.

    Of the module, because NLTK keeps the corpus that it has opened."""
    pytest.importorskip("textarena", exc_type=ImportError)
    import nltk

    home = tmp_path_factory.mktemp("nltk")
    (home / "corpora" / "words").mkdir(parents=True)
    for name in ("en", "en-basic"):
        (home / "corpora" / "words" / name).write_text("\n".join(WORDS), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nltk.data, "path", [str(home)])
        patch.setattr(nltk, "download", lambda *_, **__: True)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("words")
def test_a_game_that_verifiers_ships_is_played() -> None:
    section = {"id": "textarena", "options": {"game": "Hangman-v0"}, "train_tasks": 8, "eval_tasks": 4}
    world = open_world(VerifiersSection.model_validate(section))
    environment = world.open()
    for task in world.tasks("train")[:3]:
        instruction, _ = environment.reset(task)
        assert "You are playing Hangman" in instruction
        letters = re.findall(r"C\d\d", instruction)
        (answer,) = [word for word in WORDS if len(word) == len(letters)]
        wrong = environment.step("[zebra]")
        assert (wrong.text, wrong.done) == ("Your guess of 'ZEBRA' is not the target word.", False)
        seen = environment.step(f"[{answer}]")
        assert (seen.done, seen.success, seen.score) == (True, True, 100.0)


@pytest.mark.slow
@pytest.mark.usefixtures("words")
def test_a_short_run_on_a_game_that_verifiers_ships(tmp_path: Path) -> None:
    table = 'name="verifiers", id="textarena", options={game="Hangman-v0"}, turn_limit=4, train_tasks=20, eval_tasks=4'
    assert train(world_config(tmp_path, table), tmp_path / "run").updates == 2
    run = open_run(tmp_path / "run")
    assert {line.task.kind for line in run.episodes()} == {"textarena"}
    assert run.final_success is not None
