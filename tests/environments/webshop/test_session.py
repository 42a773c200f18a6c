"""The simulator: what every action does, well-formed or not."""

from __future__ import annotations

from typing import Any

import pytest

from actfirst.environments.webshop.session import Session, parse_action
from actfirst.environments.webshop.world import open_webshop
from tests.environments.webshop.shop import goal, golden, product, session

MANY = [product(asin=f"B{number:02d}") for number in range(23)]


def play(shopper: Session, *actions: str) -> str:
    for action in actions:
        shopper.step(action)
    return shopper.observation


class TestParsing:
    @pytest.mark.parametrize(
        ("action", "parsed"),
        [
            ("search[Red Cup]", ("search", "red cup")),
            ("click[B1] and go", ("click", "b1")),
            ("click[a]b]", ("click", "a]b")),
            ("search[x[]", ("search", "x[")),
            ("search[[x]", ("search[", "x")),
            ("click[x][y]", ("click[x]", "y")),
            ("search[x]\nclick[y]", ("search", "x")),
            ("search[]", None),
            ("search[a\nb]", None),
            ("\nsearch[x]", None),
            ("search", None),
            ("", None),
        ],
    )
    def test_brackets(self, action: str, parsed: tuple[str, str] | None) -> None:
        assert parse_action(action) == parsed


class TestNoOperation:
    @pytest.mark.parametrize(
        "action",
        [
            *("", "search", "search[]", "search[[x]", "click[search]", "click[nothing]", "Search[cup]"),
            *(
                " search[cup]",
                "click [buy now]",
                "click[buy now",
                "buy now",
                "click[]",
                "think[x]",
                "click[b1][x]",
            ),
        ],
    )
    @pytest.mark.parametrize("before", [(), ("search[cup]",), ("search[cup]", "click[b1]")])
    def test_nothing_changes(self, before: tuple[str, ...], action: str) -> None:
        shopper = session()
        text = play(shopper, *before)
        state = shopper.state
        assert shopper.step(action) == (0.0, False)
        assert (shopper.observation, shopper.state) == (text, state)


class TestSearching:
    def test_a_search_works_on_every_page_and_forgets_the_product(self) -> None:
        shopper = session()
        play(shopper, "search[cup]", "click[b1]", "click[red]", "search[tray]")
        assert shopper.clickables == ["back to search", "next >", "b1"]
        assert "You have clicked" not in play(shopper, "click[b1]")

    def test_ten_products_a_page(self) -> None:
        shopper = session(*MANY)
        assert "Page 1 (Total results: 23)" in play(shopper, "search[cup]")
        assert [name for name in shopper.clickables if name.startswith("b0")] == [f"b0{n}" for n in range(10)]
        play(shopper, "click[next >]", "click[next >]")
        assert shopper.clickables == ["back to search", "< prev", "next >", "b20", "b21", "b22"]
        assert "Page 4 (Total results: 23)" in play(shopper, "click[next >]")
        assert "Page 3" in play(shopper, "click[< prev]")

    def test_the_words_are_passed_on_in_lower_case(self) -> None:
        asked: list[str] = []
        shopper = session(search=lambda query: asked.append(query) or ["B1"])
        play(shopper, "search[ Red  CUP]")
        assert asked == [" red  cup"]

    def test_unknown_products_are_left_out(self) -> None:
        assert "Total results: 1" in play(session(search=lambda query: ["B9", "B1"]), "search[cup]")

    def test_a_search_without_words_finds_nothing(self) -> None:
        shopper = session(search=lambda query: [] if not query.strip() else ["B1"])
        assert "Page 1 (Total results: 0)" in play(shopper, "search[ ]")


class TestSpecialSearches:
    SOLD = (product(category="home", query="cups"), product(asin="B2", category="garden", query="tea trays"))

    @pytest.mark.parametrize(
        ("query", "found"),
        [("<c> garden", ["b2"]), ("<c> Garden and more", ["b2"]), ("<q> tea trays", ["b2"]), ("<q>", [])],
    )
    def test_categories_and_queries(self, query: str, found: list[str]) -> None:
        shopper = session(*self.SOLD)
        play(shopper, f"search[{query}]")
        assert shopper.clickables[2:] == found

    def test_they_are_not_cut_at_fifty(self) -> None:
        sold = [product(asin=f"B{number}") for number in range(70)]
        assert "Total results: 70" in play(session(*sold), "search[<c> home]")

    def test_random_products_are_always_the_same(self) -> None:
        first, second = session(*MANY), session(*MANY)
        assert play(first, "search[<r>]") == play(second, "search[x]", "search[<r>]")
        assert "Total results: 23" in first.observation

    @pytest.mark.parametrize("query", ["<a> red", "<a>", "<c>"])
    def test_where_the_original_fails_nothing_happens(self, query: str) -> None:
        shopper = session()
        before = play(shopper, "search[cup]")
        assert play(shopper, f"search[{query}]") == before


class TestProducts:
    def test_case_does_not_matter_in_a_click(self) -> None:
        assert "Price: $9.5" in play(session(), "search[cup]", "click[B1]")

    def test_visited_products_are_marked_until_the_next_visit_of_the_home_page(self) -> None:
        shopper = session()
        assert "[clicked button] B1" in play(shopper, "search[cup]", "click[b1]", "click[< prev]")
        assert "[clicked button] B1" in play(shopper, "search[tray]")
        assert "[button] B1 [button_]" in play(shopper, "click[back to search]", "search[cup]")

    def test_back_to_the_results_is_back_to_the_same_page_without_options(self) -> None:
        shopper = session(*MANY)
        text = play(shopper, "search[cup]", "click[next >]", "click[b11]", "click[red]", "click[< prev]")
        assert "Page 2 (Total results: 23)" in text
        assert "You have clicked" not in play(shopper, "click[b11]")

    def test_options_of_a_group_replace_each_other(self) -> None:
        text = play(session(), "search[cup]", "click[b1]", "click[red]", "click[blue]", "click[big]")
        assert text.startswith("You have clicked big.\nYou have clicked blue.\nInstruction:")

    def test_sub_pages_keep_the_options(self) -> None:
        shopper = session()
        assert "\n Holds tea\n" in play(shopper, "search[cup]", "click[b1]", "click[red]", "click[features]")
        assert shopper.clickables == ["back to search", "< prev"]
        assert play(shopper, "click[< prev]").startswith("You have clicked red.\n")

    def test_a_value_with_an_opening_bracket_cannot_be_clicked(self) -> None:
        shopper = session(product(options=(("size", ("[a]", "b]c")),)))
        assert "clicked" not in play(shopper, "search[cup]", "click[b1]", "click[[a]]")
        assert "You have clicked b]c." in play(shopper, "click[b]c]")

    def test_an_asin_in_lower_case_leads_nowhere(self) -> None:
        shopper = session(product(asin="b1"))
        assert play(shopper, "search[cup]") == play(shopper, "click[b1]")


class TestNamesakes:
    """An option that is called like a button does what the button does, or what its address confuses."""

    def item(self, *values: str, query: str = "cup") -> Session:
        shopper = session(product(options=(("style", values),)))
        play(shopper, f"search[{query}]", "click[b1]")
        return shopper

    def test_options_that_are_buttons(self) -> None:
        assert "Thank you" in play(self.item("buy now"), "click[buy now]")
        assert "WebShop\n" in play(self.item("back to search"), "click[back to search]")
        assert "\nA cup.\n" in play(self.item("description"), "click[description]")

    def test_attributes_have_a_page_but_no_button(self) -> None:
        assert "\n dishwasher safe\n" in play(self.item("attributes"), "click[attributes]")

    def test_search_is_never_clicked_and_next_is_an_option_here(self) -> None:
        assert "clicked" not in play(self.item("search"), "click[search]")
        assert "You have clicked next >." in play(self.item("next >"), "click[next >]")

    def test_words_in_quotes_mark_options(self) -> None:
        assert self.item("red", query='"red" cup').observation.startswith("You have clicked red.\n")

    def test_words_that_name_a_page_confuse_the_way_back(self) -> None:
        assert "Page 0 (Total results: 1)" in play(self.item("x", query="search_results"), "click[< prev]")
        text = play(self.item("x", query="item_page"), "click[features]", "click[< prev]")
        assert "Page 1 (Total results: 1)" in text


class TestBuying:
    def test_the_reward_and_the_end(self) -> None:
        shopper = session()
        play(shopper, "search[cup]", "click[b1]", "click[red]")
        # Attribute, colour and price of four wishes: the size was not chosen.
        assert shopper.step("click[buy now]") == (0.75, True)
        assert "\n0.75\n" in shopper.observation
        assert (shopper.clickables, shopper.search_bar) == ([], False)

    def test_afterwards_only_a_search_does_anything(self) -> None:
        shopper = session()
        text = play(shopper, "search[cup]", "click[b1]", "click[buy now]")
        assert play(shopper, "click[buy now]", "click[back to search]") == text
        assert shopper.step("search[cup]") == (0.0, False)
        assert "Page 1" in shopper.observation


class TestStates:
    def test_equal_situations_have_equal_states(self) -> None:
        first, second = session(), session()
        play(first, "search[cup]", "click[b1]", "click[red]", "click[big]")
        play(
            second, "search[cup]", "click[b1]", "click[big]", "click[blue]", "click[features]", "click[< prev]"
        )
        assert first.state != second.state
        play(second, "click[red]")
        assert first.state == second.state

    def test_every_difference_counts(self) -> None:
        states = []
        shopper = session(*MANY)
        for action in (
            "search[a]",
            "click[next >]",
            "click[b11]",
            "click[red]",
            "click[features]",
            "search[b]",
        ):
            shopper.step(action)
            states.append(shopper.state)
        assert len(set(states)) == len(states)
        assert session(wanted=goal()).state == session(wanted=goal()).state


WALKS = golden("walks")


@pytest.mark.parametrize("walk", WALKS["walks"], ids=[str(walk["goal"]) for walk in WALKS["walks"]])
def test_golden_walks(walk: dict[str, Any]) -> None:
    """Walks through the sample catalogue with pages rendered by the original's templates and HTML libraries."""
    world = open_webshop(nouns="simple")
    shopper = Session(world.shop, world.goals[walk["goal"]], str(walk["goal"]))
    for expected in (walk["first"], *walk["steps"]):
        if "action" in expected:
            assert shopper.step(expected["action"]) == (expected["reward"], expected["done"])
        assert shopper.observation == WALKS["texts"][expected["text"]]
        assert (shopper.clickables, shopper.search_bar) == (expected["clickables"], expected["search_bar"])
