"""The real simulator behind the environment protocol (paper, appendices "Benchmarks" and "Evaluation Metrics")."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from actfirst.environments.base import Environment
from actfirst.environments.scienceworld import java
from actfirst.environments.scienceworld.environment import ScienceworldPlayer
from actfirst.environments.scienceworld.gold import GoldPaths
from actfirst.environments.scienceworld.simulator import UNKNOWN, Simulator
from actfirst.environments.scienceworld.tasks import VARIATIONS
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task
from tests.environments.contract import EnvironmentContract
from tests.environments.scienceworld.conftest import first
from tests.support.kinds import RULES

RULE = RULES["scienceworld"]
KINDS = ("find-living-thing", "chemistry-mix-paint-secondary-color")


class ScienceContract(EnvironmentContract):
    """The contract, for a simulator that lists more than it accepts and cannot name its state."""

    sample = 1
    turns = 3
    looks = ("look around", "inventory")
    unlisted = "examine agent"

    def choices(self, seen: Observation) -> Sequence[str]:
        """No answers: a wrong one ends the task."""
        return [action for action in seen.admissible if not action.startswith("focus on ")]

    def test_admissible_actions_are_accepted(self, environment: Environment, tasks: list[Task]) -> None:
        """Of things in sight, one per verb. The simulator also lists commands about what is hidden, and refuses them
        itself."""
        tried: set[str] = set()
        for task in tasks:
            _, seen = environment.reset(task)
            spelled = [template.replace("OBJ", name) for template in seen.templates for name in seen.objects]
            listed = sorted({*spelled} & {*seen.admissible})
            random.Random(task.id).shuffle(listed)
            chosen = {action.partition(" ")[0]: action for action in listed}
            for verb in chosen.keys() - tried:
                environment.reset(task)
                assert environment.step(chosen[verb]).text != UNKNOWN, chosen[verb]
            tried.update(chosen)
        assert len(tried) > 15


@pytest.mark.usefixtures("running")
class TestScienceworldContract(ScienceContract):
    @pytest.fixture
    def world(self) -> ScienceworldWorld:
        return ScienceworldWorld(KINDS)

    @pytest.fixture
    def unshared(self, world: ScienceworldWorld, monkeypatch: pytest.MonkeyPatch) -> ScienceworldWorld:
        """Without the Java process that other tests share."""
        monkeypatch.setattr(java, "_shared", None)
        return world


@pytest.fixture
def simulator(running: None) -> Iterator[Simulator]:
    simulator = Simulator()
    yield simulator
    simulator.close()


def test_the_simulator_has_the_types_and_variations_that_the_split_counts_on(simulator: Simulator) -> None:
    # White box: the published interface of the simulator has no other way to say it.
    counts = {name: simulator._game.getTaskMaxVariations(name) for name in simulator._game.getTaskNames()}
    assert counts == VARIATIONS


def test_a_task_begins_with_its_description_and_a_look_around(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    instruction, seen = environment.reset(first(world, "boil"))
    assert instruction.startswith("Your task is to boil water.")
    assert seen.text.startswith("This room is called the hallway.")
    assert (seen.done, seen.success, seen.score, seen.state) == (False, False, 0.0, "")
    assert {"go to kitchen", "teleport to kitchen", "go kitchen", "look around"} <= set(seen.admissible)
    assert "kitchen" in seen.objects
    assert list(seen.objects) == sorted(set(seen.objects))


@pytest.mark.parametrize(("kind", "count"), [("boil", 25), ("power-component", 27)])
def test_easy_has_25_templates_and_two_more_where_there_are_wires(
    world: ScienceworldWorld, environment: ScienceworldPlayer, kind: str, count: int
) -> None:
    _, seen = environment.reset(first(world, kind))
    assert len(seen.templates) == count
    assert {"teleport OBJ", "pour OBJ in OBJ", "look around"} <= set(seen.templates)
    assert ("connect OBJ to OBJ" in seen.templates) is (count == 27)


@pytest.mark.parametrize(
    ("place", "action", "answer"),
    [
        ("art studio", "take jug", "You move the jug to the inventory."),
        ("kitchen", "turn on sink", "The sink is now activated."),
        ("kitchen", "go through door to hallway", "You move through the door to the hallway."),
    ],
)
def test_what_the_simulator_understands_is_carried_out_listed_or_not(
    world: ScienceworldWorld, environment: ScienceworldPlayer, place: str, action: str, answer: str
) -> None:
    """Paper, "Transition Consistency Checks": the valid list validates guided proposals. It is no gate."""
    environment.reset(first(world, "boil"))
    before = environment.step(f"teleport to {place}")
    assert not RULE.valid(action, before)
    after = environment.step(action)
    assert after.text == answer
    assert after.admissible != before.admissible
    environment.reset(first(world, "boil"))
    environment.step(f"teleport to {place}")
    assert environment.step(action) == after


def ask(environment: ScienceworldPlayer, task: Task) -> Observation:
    """Which of the five seeds in the jar is to be moved?"""
    environment.reset(task)
    for action in ("go to kitchen", "pick up seed jar", "teleport to greenhouse"):
        environment.step(action)
    return environment.step("move apple seed in seed jar to flower pot 2")


def test_an_ambiguous_action_is_asked_back_and_answered_by_number(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    task = first(world, "grow-plant")
    asked = ask(environment, task)
    assert asked.text.startswith("Ambiguous request: Please enter the number")
    assert asked.text.count("move apple seed (in seed jar") == 5
    assert asked.admissible == ("0", "1", "2", "3", "4")
    assert RULE.valid("0", asked)
    assert not RULE.valid("look around", asked)
    answered = environment.step("0")
    assert answered.text == "You move the apple seed to the flower pot 2."
    assert len(answered.admissible) > 500
    assert ask(environment, task) == asked
    assert environment.step("0") == answered


def test_anything_but_a_number_cancels_a_question(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    ask(environment, first(world, "grow-plant"))
    cancelled = environment.step("look around")
    assert cancelled.text.startswith("Unknown action.")
    assert len(cancelled.admissible) > 500
    assert environment.step("0").text == UNKNOWN


@pytest.fixture
def gated(running: None) -> Iterator[ScienceworldPlayer]:
    environment = ScienceworldWorld(gate="valid list").open()
    yield environment
    environment.close()


@pytest.mark.parametrize("action", ["juggle", "", "0"])
def test_what_is_not_understood_changes_nothing(
    world: ScienceworldWorld, environment: ScienceworldPlayer, action: str
) -> None:
    _, before = environment.reset(first(world, "boil"))
    assert environment.step(action) == replace(before, text=UNKNOWN)


def test_behind_the_gate_an_action_that_is_not_admissible_is_not_executed(
    world: ScienceworldWorld, gated: ScienceworldPlayer
) -> None:
    """The simulator would understand `examine kitchen`; it is not on its list, so it is refused like nonsense."""
    _, before = gated.reset(first(world, "boil"))
    for action in ("examine kitchen", "juggle", "", "0"):
        assert not RULE.valid(action, before)
        after = gated.step(action)
        assert after.text == UNKNOWN
        assert (after.admissible, after.objects, after.score) == (
            before.admissible,
            before.objects,
            before.score,
        )


def test_actions_that_are_not_understood_have_no_effect_on_chance(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    task = first(world, "find-plant")
    environment.reset(task)
    plain = environment.step("teleport to outside")
    environment.reset(task)
    environment.step("juggle")
    assert environment.step("teleport to outside") == plain


def test_the_spelling_of_the_prompt_does_what_the_listed_command_does(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    task = first(world, "chemistry-mix-paint-secondary-color")
    environment.reset(task)
    seen = environment.step("teleport art studio")
    assert "cup containing red paint" in seen.objects
    assert RULE.valid("pick up cup containing red paint", seen)
    assert (
        environment.step("Pick up  cup containing red paint").text == "You move the wood cup to the inventory."
    )


def test_behind_the_gate_a_question_is_answered_and_never_shown(
    world: ScienceworldWorld, gated: ScienceworldPlayer
) -> None:
    gated.reset(first(world, "grow-plant"))
    seen = gated.step("go to kitchen")
    gated.step(next(a for a in seen.admissible if a.startswith("pick up ") and "seed jar" in a))
    seen = gated.step("teleport to greenhouse")
    moves = (a for a in seen.admissible if a.startswith("move apple seed ") and a.endswith("to flower pot 2"))
    said = gated.step(next(moves))  # there are five seeds in the jar
    assert said.text == "You move the apple seed to the flower pot 2."
    assert gated.step("look around").text.startswith("This room is called the greenhouse.")


def test_references_of_the_gate_are_told_from_those_without() -> None:
    """Behind the gate questions are answered, so not every reference of one replays in the other."""
    open_one = ScienceworldWorld().fingerprint
    assert open_one != ScienceworldWorld(gate="valid list").fingerprint
    assert ScienceworldWorld(gate="valid list").fingerprint == "scienceworld-1.2.3-easy-1-s0"


def test_the_score_is_the_best_so_far_and_full_score_is_success(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    task = first(world, "lifespan-shortest-lived")
    with GoldPaths(world) as paths:
        *_, answer = (command for command in paths.gold(task) if command.startswith("focus on "))
    environment.reset(task)
    seen = environment.step("teleport to outside")
    assert 0 < seen.score < 100
    assert not seen.done
    end = environment.step(answer)
    assert (end.score, end.success, end.done, end.admissible) == (100.0, True, True, ())
    assert len(end.templates) == 25  # compared at the end of an episode, too
    assert environment.step("look around").text == UNKNOWN


def test_a_wrong_answer_ends_the_episode_and_keeps_the_best_score(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    environment.reset(first(world, "lifespan-shortest-lived"))
    before = environment.step("teleport to outside")
    end = environment.step("focus on agent")
    assert (end.done, end.success, end.score) == (True, False, before.score)


def test_a_step_before_reset_or_after_close_is_a_failure(
    world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    with pytest.raises(EnvironmentFailure, match="before reset"):
        environment.step("look around")
    environment.close()
    with pytest.raises(EnvironmentFailure, match="closed"):
        environment.reset(first(world, "boil"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grow-fruit", "mendelian-genetics-unknown-plant", "power-component"])
def test_what_the_simulator_leaves_to_chance_is_the_same_every_time(
    world: ScienceworldWorld, environment: ScienceworldPlayer, kind: str
) -> None:
    task = first(world, kind, "eval")
    with GoldPaths(world) as paths:
        actions = paths.reword(task, paths.gold(task)[:80])
    runs = []
    for _ in range(2):
        environment.reset(task)
        runs.append([environment.step(action) for action in actions])
        environment.reset(first(world, "boil"))  # other draws in between
    assert runs[0] == runs[1]
