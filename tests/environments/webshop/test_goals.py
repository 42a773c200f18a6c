"""Goals: texts, price caps, order (paper, appendix "Benchmarks": seed 233)."""

from __future__ import annotations

import random

import pytest

from actfirst.environments.webshop.catalogue import find_files, read_catalogue
from actfirst.environments.webshop.goals import (
    NO_CAP,
    MadeGoals,
    draw_cap,
    draw_caps,
    draw_prices,
    goal_order,
    human_goals,
    made_goal,
)
from actfirst.environments.webshop.world import WebshopWorld
from tests.environments.webshop.published import ABSENT, FOLDER, present, published
from tests.environments.webshop.shop import product


class TestPrices:
    def test_a_single_price_is_the_price(self) -> None:
        assert draw_prices([(5.0,), (7.5,)]) == [5.0, 7.5]

    def test_a_range_gives_a_price_inside_it_always_the_same(self) -> None:
        first, second = draw_prices([(10.0, 20.0), (10.0, 20.0)])
        assert 10 <= first <= 20
        assert first != second
        assert draw_prices([(10.0, 20.0), (10.0, 20.0)]) == [first, second]

    def test_only_ranges_draw(self) -> None:
        assert draw_prices([(1.0,), (10.0, 20.0)])[1] == draw_prices([(10.0, 20.0)])[0]


class TestCaps:
    def test_a_cap_is_one_of_the_second_to_fourth_steps_above_the_price(self) -> None:
        caps = {draw_cap(12.0, random.Random(seed)) for seed in range(200)}
        assert caps == {30.0, 40.0, 50.0}

    def test_a_step_equal_to_the_price_is_not_above_it(self) -> None:
        assert min(draw_cap(20.0, random.Random(seed)) for seed in range(200)) == 40.0

    def test_near_the_end_of_the_ladder_there_is_no_choice_and_then_no_cap(self) -> None:
        assert draw_cap(975.0, random.Random(0)) == 990.0
        assert draw_cap(985.0, random.Random(0)) == NO_CAP


class TestHumanGoals:
    def annotation(self, **changes: object) -> dict[str, object]:
        written = {"instruction": "i want a cup..", "instruction_attributes": ["red"]}
        return {**written, "instruction_options": ["big"], **changes}

    def test_text_attributes_and_options(self) -> None:
        (goal,) = human_goals([(product(), 2000.0, [self.annotation()])])
        assert goal.instruction == "i want a cup"
        assert (goal.attributes, goal.options, goal.price_cap) == (("red",), ("big",), NO_CAP)

    def test_the_price_cap_is_part_of_the_text(self) -> None:
        (goal,) = human_goals([(product(), 975.0, [self.annotation()])])
        assert goal.instruction == "i want a cup, and price lower than 990.00 dollars"

    def test_without_attributes_there_is_no_goal_and_no_draw(self) -> None:
        some = [self.annotation(instruction_attributes=[]), self.annotation()]
        assert human_goals([(product(), 5.0, some)]) == human_goals([(product(), 5.0, some[1:])])


class TestMadeGoals:
    CUP = product(instruction="Find me red cups", instruction_attributes=("red",))

    def test_groups_are_sorted_and_the_last_changes_fastest(self) -> None:
        cup = product(instruction="Find", options=(("size", ("s", "m")), ("color", ("red", "blue", "green"))))
        made = [made_goal(cup, NO_CAP, number) for number in range(6)]
        assert [goal.options for goal in made[:3]] == [
            (("color", "red"), ("size", "s")),
            (("color", "red"), ("size", "m")),
            (("color", "blue"), ("size", "s")),
        ]
        assert made[1].instruction == "Find with color: red, and size: m"

    def test_a_product_without_options_has_one_goal(self) -> None:
        assert made_goal(product(instruction="Find", options=()), 40.0, 0).instruction == (
            "Find, and price lower than 40.00 dollars"
        )

    def test_all_goals_of_a_catalogue(self) -> None:
        products = [self.CUP, product(options=()), self.CUP]
        goals = MadeGoals(products.__getitem__, [2, 2, 4], [10.0, 0.0, 20.0])
        assert len(goals) == 4
        assert sorted(goal.price_cap for goal in goals) == [10.0, 10.0, 20.0, 20.0]
        assert goals[0:2] == [goals[0], goals[1]]

    def test_one_cap_for_all_goals_of_a_product(self) -> None:
        assert draw_caps([5.0, 5.0]) == draw_caps([5.0, 5.0])


def test_the_order_is_that_of_pythons_shuffle_with_seed_233() -> None:
    expected = list(range(1000))
    random.Random(233).shuffle(expected)
    assert list(goal_order(1000)) == expected


@pytest.mark.skipif(not present(), reason=ABSENT)
def test_the_published_set_has_6910_generated_and_13_written_goals() -> None:
    world = published()
    assert len(world.shop.shelf) == 1000
    assert (world.kind, len(world.goals)) == ("synthetic", 6910)
    written = WebshopWorld(read_catalogue(find_files(FOLDER)), "human", splits={"train": range(13)})
    assert len(written.goals) == 13
