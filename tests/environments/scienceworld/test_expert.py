"""The agent for some task types: it reads where it is and what it holds, and measures a thing beside the boxes."""

from __future__ import annotations

import random

import pytest

from actfirst.environments.scienceworld.environment import ScienceworldPlayer
from actfirst.environments.scienceworld.expert import expert_turn, forgetful_turn
from actfirst.environments.scienceworld.kind import KIND
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.records import Observation, Pair, TurnContext
from tests.environments.scienceworld.conftest import first

FIND = "Your task is to find a(n) living thing. First, focus on the thing. Then, move it to the red box in the kitchen."
PLANT = FIND.replace("living thing", "plant")
MEASURE = (
    "Your task is to measure the temperature of metal fork, which is located around the bathroom. First, focus on the "
    "thermometer. Next, focus on the metal fork. If the metal fork temperature is above 0.0 degrees celsius, place it "
    "in the yellow box. If the metal fork temperature is below 0.0 degrees celsius, place it in the purple box. "
    "The boxes are located around the living room."
)
ROOM = "This room is called the hallway. In it, you see: "
OUTSIDE = ("agent", "air", "axe", "door to kitchen", "dove", "egg turtle", "ground", "outside")
COMMANDS = (
    *(
        f"teleport to {room}"
        for room in ("outside", "kitchen", "greenhouse", "bathroom", "living room", "workshop")
    ),
    *(f"focus on {thing}" for thing in ("agent", "axe", "dove", "egg turtle", "thermometer", "metal fork")),
    *(
        f"pick up {thing}"
        for thing in ("axe", "dove", "egg turtle", "thermometer", "metal fork", "flower pot 4")
    ),
    *(f"move {thing} to {box} box" for thing in ("dove", "metal fork") for box in ("red", "yellow", "purple")),
    "move flower pot to red box",
    "use thermometer on metal fork",
    "look around",
)


def context(task: str, *turns: str, objects: tuple[str, ...] = OUTSIDE) -> TurnContext:
    """What was done and seen in turn, from the first observation on."""
    seen, done = turns[::2], turns[1::2]
    pairs = tuple(Pair(text, action) for text, action in zip(seen, done))
    return TurnContext(task, pairs, Observation(seen[-1], COMMANDS, objects=objects), len(pairs) + 1)


WENT = (ROOM, "teleport to outside", "You teleport to the outside.")
FOCUSED = (*WENT, "focus on dove", "You focus on the dove egg.")
TAKEN = (*FOCUSED, "pick up dove", "You move the dove to the inventory.")


@pytest.mark.parametrize(
    ("turns", "stage", "action"),
    [
        ((ROOM,), "go", "teleport to outside"),
        (WENT, "focus", "focus on dove"),
        (FOCUSED, "take", "pick up dove"),
        (TAKEN, "carry", "teleport to kitchen"),
        ((*TAKEN, "teleport to kitchen", "You teleport to the kitchen."), "place", "move dove to red box"),
    ],
)
def test_a_living_thing_is_focused_on_taken_and_brought_to_its_box(
    turns: tuple[str, ...], stage: str, action: str
) -> None:
    turn = expert_turn(context(FIND, *turns))
    assert (turn.stage, turn.action) == (stage, action)


def test_a_plant_is_taken_with_the_pot_that_it_was_seen_in() -> None:
    pots = (
        "a flower pot 2 (containing soil)\n\ta flower pot 4 (containing a pea plant in the adult stage, soil)"
    )
    went = (ROOM, "teleport to greenhouse", "You teleport to the greenhouse.")
    assert expert_turn(context(PLANT, *went)).action == "look around", "it does not know the pots"
    focused = (*went, "look around", pots, "focus on adult pea plant", "You focus on the pea plant.")
    turn = expert_turn(context(PLANT, *focused))
    assert turn.action == "pick up flower pot 4"
    assert turn.reasoning.endswith(
        "I have focused on adult pea plant. It is in flower pot 4. The next step is to take it."
    )


TOOL = (
    *(ROOM, "teleport to kitchen", "You teleport to the kitchen."),
    *("pick up thermometer", "You move the thermometer to the inventory."),
    *("focus on thermometer", "You focus on the thermometer."),
)
FORK = (
    *TOOL,
    *(
        "teleport to bathroom",
        "You teleport to the bathroom.",
        "focus on metal fork",
        "You focus on the metal fork.",
    ),
    *("pick up metal fork", "You move the metal fork to the inventory."),
)
BESIDE = (*FORK, "teleport to living room", "You teleport to the living room.")
USED = (
    *BESIDE,
    "use thermometer on metal fork",
    "the thermometer measures a temperature of {} degrees celsius",
)


@pytest.mark.parametrize(
    ("turns", "stage", "action"),
    [
        ((ROOM,), "tool", "teleport to kitchen"),
        (TOOL, "go", "teleport to bathroom"),
        (FORK, "carry", "teleport to living room"),
        (BESIDE, "measure", "use thermometer on metal fork"),
        ((*USED[:-1], USED[-1].format(-22)), "place", "move metal fork to purple box"),
        ((*USED[:-1], USED[-1].format(3)), "place", "move metal fork to yellow box"),
    ],
)
def test_a_thing_is_measured_beside_the_boxes_and_goes_to_the_right_one(
    turns: tuple[str, ...], stage: str, action: str
) -> None:
    turn = expert_turn(context(MEASURE, *turns))
    assert (turn.stage, turn.action) == (stage, action)


def test_the_novice_says_the_truth_and_draws_other_conclusions() -> None:
    rng = random.Random(0)
    for task, turns in ((FIND, FOCUSED), (FIND, TAKEN), (MEASURE, FORK), (MEASURE, BESIDE)):
        now = context(task, *turns)
        right = expert_turn(now)
        for _ in range(5):
            wrong = forgetful_turn(now, rng)
            assert wrong.stage == right.stage
            assert wrong.reasoning.split(".")[:3] == right.reasoning.split(".")[:3], "task, place, hands"
            assert wrong.action != right.action
            assert wrong.action in COMMANDS


def test_a_question_gets_an_answer_and_an_unknown_task_a_look() -> None:
    asked = TurnContext(FIND, (), Observation("Ambiguous request", ("0", "1")), 1)
    assert expert_turn(asked).action == "0"
    assert expert_turn(context("Your task is to boil water.", ROOM)).action == "look around"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["find-living-thing", "find-plant", "use-thermometer"])
def test_it_solves_tasks_of_the_simulator(
    kind: str, world: ScienceworldWorld, environment: ScienceworldPlayer
) -> None:
    instruction, seen = environment.reset(first(world, kind))
    history: tuple[Pair, ...] = ()
    while not seen.done and len(history) < 15:
        action = expert_turn(TurnContext(instruction, history, seen, len(history) + 1)).action
        assert KIND.rules.valid(action, seen)
        history = (*history, Pair(seen.text, action))
        seen = environment.step(action)
    assert seen.success
