"""The shopper that has to look: it searches, opens what it can pay, goes back if an option is missing, and buys."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from actfirst.environments.webshop.expert import expert_turn, read_wish, undecided_turn
from actfirst.environments.webshop.kind import KIND
from actfirst.environments.webshop.world import WebshopWorld, open_webshop
from actfirst.records import Observation, Pair, Task, TurnContext
from actfirst.references.sources import open_sources
from tests.environments.webshop import published

ASKED = (
    "Find me loose fit women's tops with long sleeve with color: b3-wine, and size: large, and price lower than 50.00 "
    "dollars"
)
RESULTS = f"""Instruction:
{ASKED}
[button] Back to Search [button_]
Page 1 (Total results: 50)
[button] Next > [button_]

[clicked button] B000000001 [clicked button_]
A Top
$9.99

[button] B000000002 [button_]
A Golden Top
$704.0

[button] B000000003 [button_]
Another Top
$10.99 to $18.99
"""
LISTED = ("click[back to search]", "click[next >]", *(f"click[b00000000{number}]" for number in (1, 2, 3)))
PRODUCT = f"""Instruction:
{ASKED}
[button] Back to Search [button_]
[button] < Prev [button_]
color
  [button] b3-wine [button_]
  [button] blue [button_]
size
  [button] large [button_]
  [button] small [button_]
Another Top
Price: $10.99 to $18.99
Rating: N.A.
[button] Description [button_]
[button] Features [button_]
[button] Reviews [button_]
[button] Buy Now [button_]
"""
BUTTONS = ("click[back to search]", "click[< prev]", "click[description]", "click[buy now]")
VALUES = ("click[b3-wine]", "click[blue]", "click[large]", "click[small]")


def context(text: str, admissible: Sequence[str], *history: tuple[str, str]) -> TurnContext:
    pairs = tuple(Pair(seen, action) for seen, action in history)
    return TurnContext(ASKED, pairs, Observation(text, tuple(admissible)), len(pairs) + 1)


OPENED = (RESULTS, "click[b000000003]")


def test_it_reads_what_is_asked_for() -> None:
    wish = read_wish(ASKED)
    assert wish.text == "loose fit women's tops with long sleeve with color: b3-wine, and size: large"
    assert wish.options == (("color", "b3-wine"), ("size", "large"))
    assert wish.cap == "50.00"
    assert read_wish("i want a cup").options == ()


def test_it_opens_the_first_product_that_is_new_and_not_too_dear() -> None:
    turn = expert_turn(context(RESULTS, LISTED))
    assert (turn.stage, turn.action) == ("choose", "click[b000000003]")
    assert turn.reasoning == (
        "It may cost 50.00.\n'click[next >]',\n'click[b000000001]',\n'click[b000000002]',\n"
        "[button] B000000002 [button_]\nA Golden Top\n$704.0\nIt costs too much.\n"
        "'click[b000000002]',\n'click[b000000003]',\n"
        "[button] B000000003 [button_]\nAnother Top\n$10.99 to $18.99\nIt fits."
    )


@pytest.mark.parametrize(
    ("values", "clicked", "stage", "action", "reasons"),
    [
        (
            VALUES,
            (),
            "options",
            "click[b3-wine]",
            "b3-wine (here), and size: large (here).\nI choose color: b3-wine.",
        ),
        (
            VALUES,
            ("b3-wine",),
            "options",
            "click[large]",
            "b3-wine (chosen), and size: large (here).\nI choose size: large.",
        ),
        (
            VALUES,
            ("b3-wine", "large"),
            "buy",
            "click[buy now]",
            "b3-wine (chosen), and size: large (chosen).\nI buy it.",
        ),
        (VALUES[:2], (), "leave", "click[< prev]", "b3-wine (here), and size: large (not here).\nI go back."),
    ],
)
def test_it_chooses_all_options_before_it_buys_and_leaves_a_product_without_them(
    values: Sequence[str], clicked: Sequence[str], stage: str, action: str, reasons: str
) -> None:
    history = [OPENED, *((PRODUCT, f"click[{value}]") for value in clicked)]
    turn = expert_turn(context(PRODUCT, (*BUTTONS, *values), *history))
    assert (turn.stage, turn.action) == (stage, action)
    assert turn.reasoning == f"It needs color: {reasons}"


def test_what_was_chosen_for_another_product_does_not_count() -> None:
    history = [OPENED, (PRODUCT, "click[b3-wine]"), (PRODUCT, "click[< prev]"), OPENED]
    assert expert_turn(context(PRODUCT, (*BUTTONS, *VALUES), *history)).action == "click[b3-wine]"


def test_a_message_in_the_place_of_a_page_changes_nothing() -> None:
    after = context("Not carried out: this page has no such button.", LISTED, (RESULTS, "click[nothing]"))
    assert expert_turn(after) == expert_turn(context(RESULTS, LISTED))


def played(world: WebshopWorld, task: Task) -> Iterator[tuple[TurnContext, Observation]]:
    """The contexts of the expert's way, and what each led to."""
    environment = world.open()
    instruction, seen = environment.reset(task)
    history: tuple[Pair, ...] = ()
    while not seen.done and len(history) < world.turn_limit:
        now = TurnContext(instruction, history, seen, len(history) + 1)
        action = expert_turn(now).action
        assert KIND.rules.valid(action, seen)
        history = (*history, Pair(seen.text, action))
        seen = environment.step(action)
        yield now, seen


def test_the_novice_says_the_truth_and_draws_other_conclusions() -> None:
    world = open_webshop("", nouns="simple")
    rng, differ, late = random.Random(0), 0, 0
    for task in world.tasks("train")[:30]:
        for now, _ in played(world, task):
            right, wrong = expert_turn(now), undecided_turn(now, rng)
            assert KIND.rules.valid(wrong.action, now.observation)
            assert wrong.stage == right.stage
            assert wrong.reasoning.split(".")[0] == right.reasoning.split(".")[0], "what is needed"
            if right.stage in ("leave", "options", "buy"):
                late += 1
                differ += wrong.action != right.action
    assert late > 30
    assert differ > 0.9 * late


def test_the_best_references_are_the_oracles_alone() -> None:
    world = open_webshop("", nouns="simple")
    assert [source.key for source in open_sources(KIND, world, ["best"])] == ["oracle"]
    assert [source.key for source in open_sources(KIND, world, ["expert"])] == ["expert"]


@pytest.mark.skipif(not published.present(), reason=published.ABSENT)
def test_it_buys_what_is_asked_for_in_most_goals_of_the_1000_products() -> None:
    world = published.published()
    ways = [list(played(world, task)) for task in world.tasks("train")[:40]]
    assert sum(way[-1][1].success for way in ways) > 0.6 * len(ways)
    assert sum(map(len, ways)) / len(ways) < 9
