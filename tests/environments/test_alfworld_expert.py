"""The expert in ALFWorld's own houses: it begins with likely places, knows only what it read, and names its stage."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actfirst.environments.alfworld.expert import expert_turn, hesitant_turn
from actfirst.environments.alfworld.prior import FILE, Prior, count_places, training_prior
from actfirst.environments.alfworld.world import AlfworldWorld
from actfirst.records import Observation, Pair, Task, TurnContext
from tests.environments import published

PRIOR = Prior({"mug": {"cabinet": 2.0, "coffeemachine": 40.0, "countertop": 3.5, "shelf": 0.4}})
ROOM = ("cabinet 1", "cabinet 10", "cabinet 2", "coffeemachine 1", "countertop 1", "drawer 1", "shelf 1")
real_games = pytest.mark.skipif(not published.ARCHIVE.exists(), reason=published.ABSENT)


def test_likely_kinds_come_first_and_equally_likely_ones_in_the_order_of_the_actions() -> None:
    assert PRIOR.order("mug", ROOM) == [
        "coffeemachine 1",
        *("cabinet 1", "cabinet 10", "cabinet 2", "countertop 1"),  # 2.0 and 3.5 per cent count as the same
        *("drawer 1", "shelf 1"),  # below one per cent is almost never
    ]
    assert PRIOR.order("spoon", ROOM) == list(ROOM), "of a thing that it never saw the expert expects nothing"


def context(task: str, pairs: list[tuple[str, str]], text: str, *admissible: str) -> TurnContext:
    history = tuple(Pair(seen, action) for seen, action in pairs)
    return TurnContext(task, history, Observation(text, admissible), len(history) + 1)


def test_a_search_names_the_places_that_are_more_likely_and_stops_at_the_first_new_one() -> None:
    arrived = "You arrive at coffeemachine 1. On the coffeemachine 1, you see nothing."
    turn = expert_turn(
        context(
            "put a mug in shelf.",
            [("the room", "go to coffeemachine 1"), (arrived, "go to drawer 1")],
            "You arrive at drawer 1. The drawer 1 is open. In it, you see a pen 1.",
            *("examine drawer 1", *(f"go to {place}" for place in ROOM if place != "drawer 1"), "look"),
        ),
        experience=PRIOR,
    )
    assert turn.stage == "search"
    assert turn.action == "go to cabinet 1"
    assert turn.reasoning.endswith(
        "I have not seen a mug. Likely places: coffeemachine 1 checked, cabinet 1 new. So I go to cabinet 1."
    )


HELD = "You pick up the mug 1 from the shelf 1."
BACK = "You move the mug 1 to the shelf 1."


@pytest.mark.parametrize(
    ("task", "seen", "stage"),
    [
        ("put a mug in desk.", (), "search"),
        ("put a mug in desk.", ("On the shelf 1, you see a mug 1.",), "take"),
        ("put a mug in desk.", (HELD,), "place"),
        ("put a clean mug in desk.", (HELD,), "treat"),
        ("put a hot mug in desk.", (HELD, "You heat the mug 1 using the microwave 1."), "place"),
        ("look at mug under the desklamp.", (HELD,), "light"),
        ("put a pen in desk.", (HELD,), "free"),
        ("put two mug in shelf.", (HELD, BACK), "second"),
    ],
)
def test_every_turn_has_a_stage(task: str, seen: tuple[str, ...], stage: str) -> None:
    moves = ("go to desk 1", "go to shelf 1", "go to microwave 1", "go to sinkbasin 1", "look")
    turn = expert_turn(context(task, [(text, "look") for text in seen], "Nothing happens.", *moves))
    assert turn.stage == stage


def played(world: AlfworldWorld, task: Task) -> Iterator[tuple[TurnContext, bool]]:
    """The contexts of the expert's way, and whether it had won after each."""
    environment = world.open()
    instruction, seen = environment.reset(task)
    history: tuple[Pair, ...] = ()
    while not seen.done and len(history) < world.turn_limit:
        now = TurnContext(instruction, history, seen, len(history) + 1)
        action = expert_turn(now, experience=training_prior()).action
        assert action in seen.admissible
        history = (*history, Pair(seen.text, action))
        seen = environment.step(action)
        yield now, seen.success


@real_games
def test_with_experience_the_expert_wins_published_games_in_few_turns() -> None:
    world = AlfworldWorld(published.unpacked())
    ways = [list(played(world, task)) for task in world.tasks("valid_seen")]
    assert all(way[-1][1] for way in ways)
    assert sum(map(len, ways)) / len(ways) < 10, "in the order of names it needs about twenty"


@real_games
def test_the_novice_says_the_truth_and_hesitates_in_its_own_way_at_every_late_stage() -> None:
    world = AlfworldWorld(published.unpacked())
    shown: dict[str, set[str]] = {}
    for task in world.tasks("valid_seen"):
        for now, _ in played(world, task):
            right = expert_turn(now, experience=training_prior())
            wrong = hesitant_turn(now, training_prior())
            assert wrong.action in now.observation.admissible
            assert wrong.stage == right.stage
            assert wrong.reasoning.split(".")[:2] == right.reasoning.split(".")[:2], "task and place"
            assert wrong.action.split()[0] in ("look", "inventory", "examine"), (
                "nothing that is right elsewhere"
            )
            shown.setdefault(right.stage, set()).add(wrong.reasoning.split(".")[-3])
    late = [shown[stage] for stage in ("treat", "place", "light", "second")]
    assert all(len(thoughts) == 1 for thoughts in late)
    assert len(set.union(*late)) == len(late)


@pytest.mark.slow
@real_games
def test_the_stored_experience_is_that_of_the_training_games_alone(tmp_path: Path) -> None:
    with tarfile.open(published.ARCHIVE.with_name("train_games.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    world = AlfworldWorld(tmp_path)
    counted = count_places(world.game(task) for task in world.tasks("train"))
    assert counted == training_prior().shares, f"make {FILE} again with count_places"
