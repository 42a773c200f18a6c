"""The native engine says and allows exactly what TextWorld does: golden transcripts and single rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actfirst.environments.alfworld.engine import Engine
from actfirst.environments.alfworld.game import Game, GameFile, parse_game
from actfirst.environments.alfworld.wording import NOTHING_HAPPENS
from actfirst.environments.pocket.generate import make_file
from actfirst.environments.pocket.layout import Size
from actfirst.errors import EnvironmentFailure

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))


def dressed(task: str, problem: str) -> GameFile:
    """A game file with the rules and the wording of pocket houses."""
    model = make_file(0, Size(), "train", 0)
    grammar = model.grammar.replace(parse_game(model).task, task)
    return GameFile(model.pddl_domain, grammar, problem)


@pytest.fixture
def kitchen() -> Game:
    """A small kitchen: an apple on the counter, a knife beside it, an egg in the closed fridge, a lamp."""
    return parse_game(dressed("put a hot egg in countertop.", KITCHEN))


KITCHEN = """
(define (problem kitchen) (:domain alfred)
  (:init
    (atLocation agent1 loc_bar_0)
    (receptacleType Counter_bar_1 CounterTopType) (receptacleAtLocation Counter_bar_1 loc_bar_1)
    (receptacleType Fridge_bar_1 FridgeType) (receptacleAtLocation Fridge_bar_1 loc_bar_2)
    (openable Fridge_bar_1)
    (receptacleType Micro_bar_1 MicrowaveType) (receptacleAtLocation Micro_bar_1 loc_bar_3)
    (openable Micro_bar_1)
    (receptacleType Drawer_bar_1 DrawerType) (receptacleAtLocation Drawer_bar_1 loc_bar_4)
    (receptacleType Drawer_bar_2 DrawerType) (receptacleAtLocation Drawer_bar_2 loc_bar_4)
    (canContain CounterTopType EggType) (canContain CounterTopType KnifeType) (canContain FridgeType EggType)
    (objectType Apple_bar_1 AppleType) (sliceable Apple_bar_1) (pickupable Apple_bar_1)
    (inReceptacle Apple_bar_1 Counter_bar_1) (objectAtLocation Apple_bar_1 loc_bar_1)
    (objectType Knife_bar_1 KnifeType) (pickupable Knife_bar_1)
    (inReceptacle Knife_bar_1 Counter_bar_1) (objectAtLocation Knife_bar_1 loc_bar_1)
    (objectType Egg_bar_1 EggType) (pickupable Egg_bar_1) (heatable Egg_bar_1)
    (inReceptacle Egg_bar_1 Fridge_bar_1) (objectAtLocation Egg_bar_1 loc_bar_2)
    (objectType Lamp_bar_1 DeskLampType) (toggleable Lamp_bar_1)
    (inReceptacle Lamp_bar_1 Drawer_bar_1) (objectAtLocation Lamp_bar_1 loc_bar_4)
  )
  (:goal (and (exists (?r - receptacle) (exists (?o - object) (and (heatable ?o) (objectType ?o EggType)
    (receptacleType ?r CounterTopType) (isHot ?o) (inReceptacle ?o ?r))))))
)
"""


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_transcripts_of_textworld_are_reproduced(path: Path) -> None:
    transcript: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    engine = Engine(parse_game(dressed(transcript["task"], transcript["problem"])))
    for number, step in enumerate(transcript["steps"]):
        text = engine.step(step["command"]) if number else engine.opening
        assert (text, engine.admissible(), engine.won) == (step["text"], step["admissible"], step["won"]), (
            number
        )


def test_there_are_transcripts() -> None:
    assert len(GOLDEN) == 6


def test_the_first_text_lists_the_furniture_and_ends_with_the_task(kitchen: Game) -> None:
    assert Engine(kitchen).opening == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see "
        "a counter 1, a drawer 2, a drawer 1, a fridge 1, and a micro 1.\n\n"
        "Your task is to: put a hot egg in countertop."
    )


def test_a_whole_solution(kitchen: Game) -> None:
    engine = Engine(kitchen)
    for command in ("go to fridge 1", "open fridge 1", "take egg 1 from fridge 1", "go to micro 1"):
        engine.step(command)
        assert not engine.won
    assert engine.step("heat egg 1 with micro 1") == "You heat the egg 1 using the micro 1."
    assert engine.step("go to counter 1") == (
        "You arrive at counter 1. On the counter 1, you see a apple 1, and a knife 1."
    )
    assert not engine.won
    assert engine.step("move egg 1 to counter 1") == "You move the egg 1 to the counter 1."
    assert engine.won


def test_what_a_closed_receptacle_holds_is_neither_seen_nor_taken(kitchen: Game) -> None:
    engine = Engine(kitchen)
    assert engine.step("go to fridge 1") == "You arrive at fridge 1. The fridge 1 is closed."
    assert engine.step("take egg 1 from fridge 1") == NOTHING_HAPPENS


def test_receptacles_at_one_location_are_within_reach_of_each_other(kitchen: Game) -> None:
    engine = Engine(kitchen)
    engine.step("go to drawer 1")
    assert "go to drawer 2" not in engine.commands
    assert "examine drawer 2" in engine.commands
    assert engine.step("look") == "You are facing the drawer 2, and drawer 1. Next to it, you see nothing."


def test_only_the_object_in_hand_can_be_examined(kitchen: Game) -> None:
    engine = Engine(kitchen)
    engine.step("go to counter 1")
    assert "examine knife 1" not in engine.commands
    engine.step("take knife 1 from counter 1")
    assert engine.step("examine knife 1") == "There's nothing special about knife 1."


def test_slicing_needs_the_knife_in_hand(kitchen: Game) -> None:
    engine = Engine(kitchen)
    engine.step("go to counter 1")
    assert engine.step("slice apple 1 with knife 1") == NOTHING_HAPPENS
    engine.step("take knife 1 from counter 1")
    assert engine.step("slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."


def test_an_object_without_a_place_for_it_cannot_be_put_there(kitchen: Game) -> None:
    engine = Engine(kitchen)
    engine.step("go to counter 1")
    engine.step("take apple 1 from counter 1")
    assert "move apple 1 to counter 1" not in engine.commands


def test_an_inadmissible_command_changes_nothing(kitchen: Game) -> None:
    engine = Engine(kitchen)
    before = (engine.digest, set(engine.facts), engine.admissible())
    for command in ("", "dance", "GO TO FRIDGE 1", "go to fridge 2", "open fridge 1"):
        assert engine.step(command) == NOTHING_HAPPENS
    assert (engine.digest, set(engine.facts), engine.admissible()) == before


def test_space_around_a_command_does_not_matter(kitchen: Game) -> None:
    assert Engine(kitchen).step("  go to fridge 1\n").startswith("You arrive at fridge 1.")


def test_equal_facts_have_equal_digests_and_different_facts_different_ones(kitchen: Game) -> None:
    engine = Engine(kitchen)
    engine.step("go to fridge 1")
    closed = engine.digest
    engine.step("open fridge 1")
    opened = engine.digest
    engine.step("close fridge 1")
    looked_into = engine.digest  # `checked` is a fact too, and stays
    engine.step("open fridge 1")
    assert engine.digest == opened
    assert len({closed, opened, looked_into}) == 3
    engine.reset()
    engine.step("go to fridge 1")
    assert engine.digest == closed


def test_a_lamp_is_always_said_to_turn_on(kitchen: Game) -> None:
    engine = Engine(kitchen)
    engine.step("go to drawer 1")
    assert [engine.step("use lamp 1") for _ in range(2)] == ["You turn on the lamp 1."] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("(:action look", "(:action glance"), "rules"),
        (("(opened ?r) (not (openable ?r))", "(opened ?r)"), "rules"),
    ],
)
def test_other_rules_are_refused(change: tuple[str, str], message: str) -> None:
    file = make_file(0, Size(), "train", 0)
    other = GameFile(file.pddl_domain.replace(*change), file.grammar, file.pddl_problem)
    with pytest.raises(EnvironmentFailure, match=message):
        parse_game(other)


def test_other_words_are_refused() -> None:
    file = make_file(0, Size(), "train", 0)
    other = GameFile(
        file.pddl_domain, file.grammar.replace("You open the", "You pull open the"), file.pddl_problem
    )
    with pytest.raises(EnvironmentFailure, match="wording"):
        parse_game(other)


def test_layout_and_comments_of_the_rules_do_not_matter() -> None:
    file = make_file(0, Size(), "train", 0)
    domain = "; another comment\n" + file.pddl_domain.replace("\n", "\n  ").upper()
    other = GameFile(domain, file.grammar, file.pddl_problem, walkthrough=file.walkthrough)
    assert parse_game(other) == parse_game(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(:goal", "(:gaol", "no \\(:init"),
        ("(atLocation agent1 loc_bar_0)", "", "exactly one"),
        ("(openable Fridge_bar_1)", "(edible Fridge_bar_1)", "does not know: \\(edible fridge_bar_1\\)"),
        ("(openable Fridge_bar_1)", "(receptacleAtLocation Fridge_bar_1 loc_bar_9)", "two values"),
        ("(isHot ?o)", "(isEaten ?o)", "this kind of goal"),
        ("(openable Fridge_bar_1)", "(holds agent1 Apple_bar_1)", "object in hand"),
    ],
)
def test_a_problem_that_cannot_be_played_is_refused_with_the_cause(old: str, new: str, message: str) -> None:
    with pytest.raises(EnvironmentFailure, match=message):
        parse_game(dressed("put a hot egg in countertop.", KITCHEN.replace(old, new)))
