"""How items of the product file become products."""

from __future__ import annotations

import pytest

from actfirst.environments.webshop.products import (
    NO_ATTRIBUTES,
    Product,
    kept,
    read_options,
    read_pricing,
    read_product,
)
from tests.environments.webshop.shop import ITEM, item, product


class TestWhichItemsAreKept:
    def asins(self, *given: str) -> list[str]:
        return [one["asin"] for one in kept([item(asin=asin) for asin in given])]

    def test_an_item_without_a_number_is_left_out(self) -> None:
        assert self.asins("nan", "B1") == ["B1"]

    def test_more_than_ten_characters_are_too_many(self) -> None:
        assert self.asins("B234567890", "B2345678901") == ["B234567890"]

    def test_the_first_of_two_equal_numbers_stays(self) -> None:
        assert self.asins("B1", "B2", "B1") == ["B1", "B2"]


class TestPricing:
    @pytest.mark.parametrize(
        ("written", "numbers", "tag"),
        [
            ("", (100.0,), "$100.0"),
            (None, (100.0,), "$100.0"),
            ("$9.50", (9.5,), "$9.5"),
            ("$1,234.50", (1234.5,), "$1234.5"),
            ("$10.00 - $20.5", (10.0, 20.5), "$10.0 to $20.5"),
            ("$1$2$3", (1.0, 2.0), "$1.0 to $2.0"),
            ("no price", (100.0,), "$100.0"),
        ],
    )
    def test_every_form(self, written: str | None, numbers: tuple[float, ...], tag: str) -> None:
        assert read_pricing(written) == (numbers, tag)


class TestOptions:
    def test_values_are_stripped_and_lower_case_with_spaced_bars_for_slashes(self) -> None:
        assert read_options({"Size": [{"value": " King/Queen "}]}) == {"size": ("king | queen",)}

    def test_empty_groups_are_skipped_and_no_groups_are_none(self) -> None:
        assert read_options({"Size": None, "Color": []}) == {"color": ()}
        assert read_options("") == read_options(None) == {}

    def test_of_two_groups_with_one_name_the_later_counts_at_the_earlier_place(self) -> None:
        read = read_options({"A": [{"value": "x"}], "b": [{"value": "y"}], "a": [{"value": "z"}]})
        assert list(read.items()) == [("a", ("z",)), ("b", ("y",))]


class TestProducts:
    def test_all_fields(self) -> None:
        read = read_product(item(query=" Red Cups "), {"attributes": ["x"], "instruction": "Find"})
        assert (read.title, read.description, read.query) == ("Red Cup", "A cup.", "red cups")
        assert read.options == (("color", ("red", "blue")), ("size", ("big",)))
        assert (read.attributes, read.instruction, read.instruction_attributes) == (("x",), "Find", ())

    def test_one_bullet_may_be_a_text_instead_of_a_list(self) -> None:
        assert read_product(item(small_description="one"), None).bullets == ("one",)

    def test_a_product_that_is_not_annotated_has_a_dummy_attribute(self) -> None:
        assert read_product(ITEM, None).attributes == NO_ATTRIBUTES
        assert read_product(ITEM, {"attributes": []}).attributes == ()

    def test_the_text_that_is_searched(self) -> None:
        assert product().document() == "red cup a cup. holds tea color: red, blue, and size: big"

    def test_combinations_multiply_and_a_group_without_values_has_none(self) -> None:
        assert product().combinations == 2
        assert product(options=()).combinations == 1
        assert product(options=(("color", ()),)).combinations == 0

    def test_a_record_gives_the_product_back(self) -> None:
        odd = product(title='caf\u00e9 "x" \U0001f44d', instruction=None)
        assert Product.load(odd.dump()) == odd

    def test_a_record_of_an_older_index_passes_the_text_gate(self) -> None:
        assert Product.load(product(title="cup \ud83d").dump()).title == "cup \ufffd"
