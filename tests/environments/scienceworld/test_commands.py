"""Spellings of commands: what is admissible, what is submitted for it, and which listed command is meant."""

from __future__ import annotations

import pytest

from actfirst.environments.scienceworld.commands import meant, spellings
from actfirst.environments.scienceworld.simulator import ListedCommand, Template
from actfirst.environments.scienceworld.wording import equivalents

TEMPLATES = [
    Template(2, "go OBJ"),
    Template(2, "teleport OBJ"),
    Template(4, "look at OBJ"),
    Template(10, "pour OBJ in OBJ"),
    Template(21, "pick up OBJ"),
    Template(3, "look around"),
]
CUP, JUG, HALL, POT = 1, 2, 3, 4
LISTED = [
    ListedCommand("go to hallway", 2, (HALL,)),
    ListedCommand("teleport to hallway", 2, (HALL,)),
    ListedCommand("look around", 3, ()),
    ListedCommand("look at wood cup in cupboard", 4, (CUP,)),
    ListedCommand("look at metal pot", 4, (POT,)),
    ListedCommand("pour wood cup in cupboard into jug", 10, (CUP, JUG)),
    ListedCommand("pour metal pot into jug", 10, (POT, JUG)),
]
SHOWN = {CUP: "cup", JUG: "jug", HALL: "hallway"}


@pytest.fixture(scope="module")
def admissible() -> dict[str, str]:
    return spellings(LISTED, TEMPLATES, SHOWN)


def test_a_listed_command_is_admissible_as_it_is_listed(admissible: dict[str, str]) -> None:
    assert all(admissible[command.text] == command.text for command in LISTED)


@pytest.mark.parametrize(
    ("as_the_prompt_spells_it", "listed"),
    [
        ("go hallway", "go to hallway"),
        ("teleport hallway", "teleport to hallway"),
        ("look at cup", "look at wood cup in cupboard"),
        ("pour cup in jug", "pour wood cup in cupboard into jug"),
        ("pour metal pot in jug", "pour metal pot into jug"),  # held: not among the objects in sight
    ],
)
def test_a_template_with_shown_names_stands_for_the_listed_command(
    admissible: dict[str, str], as_the_prompt_spells_it: str, listed: str
) -> None:
    assert admissible[as_the_prompt_spells_it] == listed


def test_what_is_not_listed_is_not_admissible_however_it_is_spelled(admissible: dict[str, str]) -> None:
    assert "pick up cup" not in admissible
    assert "pour jug in cup" not in admissible
    assert len(admissible) == len(LISTED) + 5


def test_a_listed_command_is_never_taken_for_another_one() -> None:
    listed = [ListedCommand("look at cup", 4, (POT,)), ListedCommand("look at tin cup", 4, (CUP,))]
    assert spellings(listed, TEMPLATES, SHOWN)["look at cup"] == "look at cup"


def test_case_and_spacing_do_not_matter(admissible: dict[str, str]) -> None:
    assert meant("  Go   to HALLWAY ", admissible) == "go to hallway"
    assert meant("POUR cup in jug", admissible) == "pour wood cup in cupboard into jug"
    assert meant("go to the hallway", admissible) is None
    assert meant("", admissible) is None


NAMES = {
    1: ("thermometer", "device"),
    2: ("water", "substance", "liquid"),
    3: ("juice", "substance", "liquid"),
    4: ("anode",),
    5: ("terminal 1",),
    6: ("terminal 1",),
}
VALID = [
    ListedCommand("use thermometer on water in metal pot", 13, (1, 2)),
    ListedCommand("use thermometer on juice", 13, (1, 3)),
    ListedCommand("look at water in metal pot", 4, (2,)),
    ListedCommand("look at juice", 4, (3,)),
    ListedCommand("put down thermometer", 22, (1,)),
    ListedCommand("connect anode in battery to terminal 1 in red wire", 27, (4, 5)),
    ListedCommand("connect anode in battery to terminal 1 in blue wire", 27, (4, 6)),
]


@pytest.mark.parametrize(
    ("gold", "likeliest", "choices"),
    [
        ("examine substance in metal pot", "look at water in metal pot", 2),
        (
            "use thermometer in inventory on substance in metal pot",
            "use thermometer on water in metal pot",
            2,
        ),
        ("use thermometer in inventory on juice", "use thermometer on juice", 1),
        ("drop thermometer in inventory", "put down thermometer", 1),
        (
            "connect battery anode to blue wire terminal 1",
            "connect anode in battery to terminal 1 in blue wire",
            1,
        ),
    ],
)
def test_a_command_is_matched_by_what_it_is_about(gold: str, likeliest: str, choices: int) -> None:
    found = equivalents(gold, VALID, NAMES)
    assert (found[0].text, len(found)) == (likeliest, choices)


def test_the_longest_name_decides() -> None:
    """Life stages are part of some names and of no listed command."""
    listed = [ListedCommand("focus on tree in pot 4", 11, (1,)), ListedCommand("focus on seed", 11, (2,))]
    names = {1: ("plant", "tree", "plant in the adult stage"), 2: ("plant", "seed", "plant in the seed stage")}
    found = equivalents("focus on plant in the seed stage in pot 4", listed, names)
    assert [entry.text for entry in found] == ["focus on seed", "focus on tree in pot 4"]


@pytest.mark.parametrize(
    "gold",
    [
        "open door to kitchen",
        "juggle thermometer",
        "look at",
        "wait1",
        "connect foil terminal 1 to wire terminal 1",
    ],
)
def test_what_is_not_listed_under_any_name_has_no_equivalent(gold: str) -> None:
    assert equivalents(gold, VALID, NAMES) == []
