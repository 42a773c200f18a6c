"""Pages as text and as clickable elements, piece by piece."""

from __future__ import annotations

import pytest

from actfirst.environments.webshop.pages import done_page, home_page, item_page, results_page, sub_page
from tests.environments.webshop.shop import product

ADDRESS = "http://127.0.0.1:3000/7"


def test_home() -> None:
    page = home_page("i want a cup")
    assert page.text(ADDRESS, ()) == "WebShop\nInstruction: \ni want a cup\n[button] Search [button_]\n"
    assert list(page.clickables()) == ["search"]
    assert page.search_bar


class TestResults:
    def test_the_first_page(self) -> None:
        page = results_page("i want", [product(), product(asin="B2")], 1, 2)
        assert page.text(ADDRESS, {"B2"}) == (
            "Instruction:\ni want\n[button] Back to Search [button_]\nPage 1 (Total results: 2)\n"
            "[button] Next > [button_]\n"
            "\n[button] B1 [button_]\nRed Cup\n$9.5\n"
            "\n[clicked button] B2 [clicked button_]\nRed Cup\n$9.5\n"
        )
        assert list(page.clickables()) == ["back to search", "next >", "b1", "b2"]
        assert not page.search_bar

    def test_later_pages_lead_back_and_even_the_last_leads_on(self) -> None:
        page = results_page("i want", [], 9, 2)
        assert list(page.clickables()) == ["back to search", "< prev", "next >"]
        assert "Page 9 (Total results: 2)\n[button] < Prev [button_]\n[button] Next > [button_]\n" in page.text(
            ADDRESS, ()
        )


class TestItems:
    def test_the_whole_page(self) -> None:
        assert item_page("i want", product()).text(ADDRESS, ()) == (
            "Instruction:\ni want\n[button] Back to Search [button_]\n[button] < Prev [button_]\n"
            "color\n  [button] red [button_]\n  [button] blue [button_]\nsize\n  [button] big [button_]\n"
            "Red Cup\nPrice: $9.5\nRating: N.A.\n[button] Description [button_]\n[button] Features [button_]\n"
            "[button] Reviews [button_]\n[button] Buy Now [button_]\n"
        )

    def test_buttons_come_before_options(self) -> None:
        assert list(item_page("", product()).clickables()) == [
            *("back to search", "< prev", "description", "features", "reviews", "buy now"),
            *("red", "blue", "big"),
        ]

    def test_chosen_options_are_marked_and_announced_the_last_first(self) -> None:
        text = item_page("", product()).text(f'{ADDRESS}/{{"color": "red", "size": "big"}}', ())
        assert text.startswith("You have clicked big.\nYou have clicked red.\nInstruction:\n")
        assert "  [clicked button] red [clicked button_]\n  [button] blue [button_]\n" in text

    @pytest.mark.parametrize("value", ['5" x 7"', "caf\u00e9"])
    def test_quotes_and_other_letters_are_escaped_in_the_address_and_so_not_marked(self, value: str) -> None:
        import json

        page = item_page("", product(options=(("size", (value,)),)))
        assert "clicked" not in page.text(f"{ADDRESS}/{json.dumps({'size': value})}", ())

    def test_of_equal_texts_the_last_counts_at_the_place_of_the_first(self) -> None:
        twice = product(options=(("color", ("red", "features")), ("trim", ("red",))))
        found = item_page("", twice).clickables()
        assert list(found)[3] == "features"
        assert (found["features"].group, found["red"].group) == ("color", "trim")


class TestSubPages:
    HEAD = "Instruction:\ni want\n[button] Back to Search [button_]\n[button] < Prev [button_]\n"

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("Description", "A cup.\n"),
            ("Features", " Holds tea\n Is red\n"),
            ("Reviews", ""),
            ("Attributes", " dishwasher safe\nhome\ncups\nHome \u203a Cups\n"),
        ],
    )
    def test_each(self, name: str, text: str) -> None:
        assert sub_page("i want", product(), name).text(ADDRESS, ()) == self.HEAD + text


class TestBlankText:
    """What is left of a text of spaces is what HTML parsers leave of it."""

    @pytest.mark.parametrize(
        ("description", "line"),
        [("", ""), ("  ", " \n"), (" \t ", " \n"), (" \n ", ""), ("a\nb", "a\nb\n"), ("\u00a0", "\u00a0\n")],
    )
    def test_a_description(self, description: str, line: str) -> None:
        page = sub_page("i want", product(description=description), "Description")
        assert page.text(ADDRESS, ()) == TestSubPages.HEAD + line

    def test_an_empty_bullet_is_a_space(self) -> None:
        page = sub_page("i want", product(bullets=("",)), "Features")
        assert page.text(ADDRESS, ()) == TestSubPages.HEAD + " \n"


def test_the_last_page() -> None:
    page = done_page("B1", {"size": "men's <5\u00e9", "color": "red"}, 2 / 3)
    lines = page.text(ADDRESS, ()).split("\n")
    assert lines[:4] == [
        *("Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)")
    ]
    assert lines[5:9] == [
        *("asin", "B1", "options", '{"color": "red", "size": "men\\u0027s \\u003c5\\u00e9"}'),
    ]
    assert lines[-5:] == ["Your score (min 0.0, max 1.0)", "0.6666666666666666", "Reward Details ", "None", ""]
    assert page.clickables() == {}
