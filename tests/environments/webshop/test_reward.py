"""The reward, term by term, with hand-computed values."""

from __future__ import annotations

import pytest

from actfirst.environments.webshop.fuzzy import alike, token_set_ratio
from actfirst.environments.webshop.goals import Goal
from actfirst.environments.webshop.nouns import simple_nouns
from actfirst.environments.webshop.products import Product
from actfirst.environments.webshop.reward import COLOURS, colour_of, reward, type_factor
from tests.environments.webshop.shop import goal, product, words


def bought(wanted: Goal, chosen: dict[str, str], price: float = 9.5, sold: Product | None = None) -> float:
    return reward(sold or product(), price, chosen, wanted, words)


class TestShares:
    def test_everything(self) -> None:
        assert bought(goal(), {"color": "red", "size": "big"}) == 1.0

    def test_each_wish_counts_once(self) -> None:
        # Wishes: one attribute, two options, one price.
        assert bought(goal(), {"color": "red"}) == 0.75
        assert bought(goal(), {}) == 0.5
        assert bought(goal(), {}, price=10.01) == 0.25
        assert bought(goal(attributes=("vegan",)), {}, price=10.01) == 0.0

    def test_a_price_equal_to_the_cap_is_fine(self) -> None:
        assert bought(goal(options=()), {}, price=10.0) == 1.0

    def test_more_options_than_wanted_do_no_harm(self) -> None:
        assert bought(goal(options=()), {"color": "red"}) == 1.0


class TestAttributes:
    @pytest.mark.parametrize("wanted", ["safe dishwasher", "holds tea", "a cup", "red"])
    def test_alike_or_in_title_bullets_or_description(self, wanted: str) -> None:
        assert bought(goal(attributes=(wanted,), options=()), {}) == 1.0

    def test_capitals_of_a_wish_are_not_found_in_texts(self) -> None:
        assert bought(goal(attributes=("Holds tea",), options=()), {}) == 0.5


class TestOptions:
    def test_a_written_wish_is_a_value(self) -> None:
        assert bought(goal(options=("big",)), {"size": "big"}) == 1.0
        assert bought(goal(options=("big",)), {"any group": "big"}) == 1.0

    def test_values_are_reduced_to_their_first_colour_word(self) -> None:
        assert colour_of("navy blue") == "blue"
        assert colour_of("rectangular") == "tan"
        assert colour_of("big") == "big"

    def test_a_pair_contains_a_colour_only_if_a_member_is_one(self) -> None:
        assert colour_of(("color", "red")) == "red"
        assert colour_of(("color", "dark red")) == ("color", "dark red")

    def test_a_pair_is_compared_as_text(self) -> None:
        # `navy blue` becomes `blue`, a word of `color navy blue`; `black2070` becomes `black`, which is none.
        assert bought(goal(options=(("color", "navy blue"),)), {"color": "navy blue"}) == 1.0
        assert bought(goal(options=(("color", "black2070"),)), {"color": "black2070"}) == pytest.approx(2 / 3)

    def test_there_are_102_colour_words_in_alphabetical_order(self) -> None:
        assert len(COLOURS) == len(set(COLOURS)) == 102
        assert list(COLOURS) == sorted(COLOURS)


class TestKind:
    TITLE = "a b c d e f g h i j k l"  # twelve nouns

    def factor(self, title: str, **changes: str) -> float:
        sold = product(title=title, query="x", product_category="y", **changes)
        return type_factor(sold, goal(name=self.TITLE), words)

    def test_the_title_alone(self) -> None:
        assert self.factor("z") == 0.0
        assert self.factor("a") == 0.1  # 1/12
        assert self.factor("a b") == 0.5  # 2/12
        assert self.factor("a b c") == 1.0  # 3/12

    def test_one_noun_is_needed_whatever_the_query(self) -> None:
        assert type_factor(product(title="z"), goal(name=self.TITLE), words) == 0.0
        assert type_factor(product(title="a"), goal(name=self.TITLE), words) == 0.1
        assert type_factor(product(title="a b"), goal(name=self.TITLE), words) == 1.0

    def test_two_shared_parts_of_the_category_are_enough(self) -> None:
        sold = product(title="a b", query="x", product_category="Cups \u203a Home\u203aSale")
        assert type_factor(sold, goal(name=self.TITLE), words) == 1.0

    def test_a_title_without_nouns(self) -> None:
        assert type_factor(product(), goal(name=""), words) == 1.0
        assert type_factor(product(query="x", product_category="y"), goal(name=""), words) == 0.5

    def test_repeated_nouns_of_the_goal_count_in_the_share(self) -> None:
        assert (
            type_factor(product(title="a", query="x", product_category="y"), goal(name="a " * 8), words) == 0.5
        )

    def test_it_multiplies(self) -> None:
        sold = product(title="a", query="x", product_category="y")
        assert reward(sold, 1.0, {}, goal(name=self.TITLE, options=()), words) == pytest.approx(0.1)


class TestLikeness:
    @pytest.mark.parametrize(
        ("first", "second", "ratio"),
        [
            ("tea tree", "tree tea", 100),
            ("tea tree", "tea", 100),
            ("Tea-Tree!", "tea tree", 100),
            ("abcd", "abce", 75),  # 2 * 3 / 8
            ("", "tea", 0),
            ("!!", "!!", 0),
            ("caf\u00e9", "caf", 100),  # Latin-1 letters are dropped
            ("abcdefg", "abcdefgh", 93),  # 2 * 7 / 15 = 93.3
        ],
    )
    def test_ratios(self, first: str, second: str, ratio: int) -> None:
        assert token_set_ratio(first, second) == ratio

    def test_difflib_finds_less_than_the_longest_common_subsequence(self) -> None:
        # Blocks are matched around the longest one: of `abxcd` and `cdab` only `ab`, so 2 * 2 / 9.
        assert token_set_ratio("abxcd", "cdab") == 44

    def test_86_is_alike_and_85_is_not(self) -> None:
        # 2 * 6 / 14 = 85.7 rounds to 86; 2 * 17 / 40 = 85.
        assert alike("abcdefx", "abcdefy")
        assert token_set_ratio("abcdefghijklmnopqxyz", "abcdefghijklmnopquvw") == 85
        assert not alike("abcdefghijklmnopqxyz", "abcdefghijklmnopquvw")


class TestSimpleNouns:
    def test_words_that_describe_are_left_out(self) -> None:
        title = "The Waterproof Red Jacket for Men, 2-Pack with a Zipper"
        assert simple_nouns(title) == ("jacket", "men", "pack", "zipper")

    def test_endings_of_adverbs_and_adjectives(self) -> None:
        assert simple_nouns("wonderful endless wearable table bottle") == ("table", "bottle")

    def test_repetitions_stay(self) -> None:
        assert simple_nouns("cup and CUP") == ("cup", "cup")
