"""The WebShop paragraph of the paper's appendix "Transition Consistency Checks", sentence by sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actfirst.environments.rules import Carry, CheckResult, Reason, Transition
from actfirst.environments.webshop.rules import parse_action
from actfirst.records import Observation, ReferenceStep
from tests.support.kinds import RULES

rules = RULES["webshop"]

INSTRUCTION = "Instruction:\nfind me a red mug, and price lower than 20.00 dollars"
SEARCH = ("search[<your query>]",)
HOME = Observation(f"WebShop\n{INSTRUCTION}\n[button] Search [button_]", ("click[search]",), SEARCH)


def results(*products: str) -> Observation:
    listing = "\n".join(f"[button] {product.upper()} [button_]\nA mug\n$9.99" for product in products)
    clicks = ("click[back to search]", "click[next >]", *(f"click[{product}]" for product in products))
    return Observation(f"{INSTRUCTION}\nPage 1 (Total results: {len(products)})\n{listing}", clicks)


def item(product: str, *chosen: str) -> Observation:
    notices = "".join(f"You have clicked {option}.\n" for option in chosen)
    clicks = ("click[back to search]", "click[< prev]", "click[buy now]", "click[red]", "click[large]")
    return Observation(f"{notices}{INSTRUCTION}\nProduct {product}\nPrice: $9.99", clicks)


REF_RESULTS = results("b000000001", "b000000002", "b000000003")
OTHER_RESULTS = results("b000000009", "b000000002")
WITHOUT_PRODUCT = results("b000000009", "b000000008")
BOUGHT = Observation("Thank you for shopping with us!\nYour score (min 0.0, max 1.0)\n1.0", (), done=True)
PRODUCT = "click[B000000002]"
NOTHING = Carry()


def check(
    before: Observation,
    action: str,
    after: Observation,
    reference: tuple[str, Observation],
    following: str | None = None,
    carry: Carry = NOTHING,
) -> CheckResult:
    return rules.check(Transition(before, action, after, ReferenceStep(*reference), following), carry)


class TestParsing:
    def test_query_is_kept_and_target_lowercased(self) -> None:
        assert parse_action("search[Red Mug]") == ("search", "Red Mug")
        assert parse_action(" click[Buy Now]\n") == ("click", "buy now")

    @pytest.mark.parametrize("action", ["", "search", "search[]", "click[]", "buy[mug]", "CLICK[a]", "click[a"])
    def test_only_the_two_verbs_with_an_argument_are_actions(self, action: str) -> None:
        assert parse_action(action) is None

    @pytest.mark.parametrize(
        "action", ["click[a[b]", "search[a\nb]", "click[a] now", "please click[a]", "think[x] click[a]"]
    )
    def test_what_the_shop_would_ignore_is_no_action(self, action: str) -> None:
        assert parse_action(action) is None


class TestValidity:
    """ "A parsed search[query] action is valid when its query is nonempty and a search bar is available; a
    parsed click[target] action is valid when its lowercased target appears among the current clickable
    elements." """

    def test_search_needs_a_search_bar(self) -> None:
        assert rules.valid("search[red mug]", HOME)
        assert not rules.valid("search[red mug]", REF_RESULTS)

    @pytest.mark.parametrize("action", ["search[]", "search[ ]", "search", "Search for a mug"])
    def test_search_needs_a_query(self, action: str) -> None:
        assert not rules.valid(action, HOME)

    def test_the_template_itself_is_a_search_like_any_other(self) -> None:
        assert rules.valid("search[<your query>]", HOME)

    @pytest.mark.parametrize("action", ["click[b000000002]", PRODUCT, "click[Next >]"])
    def test_click_targets_are_lowercased(self, action: str) -> None:
        assert rules.valid(action, REF_RESULTS)

    @pytest.mark.parametrize("action", ["click[buy now]", "click[b00000000]", "b000000002", "click[]"])
    def test_only_what_is_displayed_can_be_clicked(self, action: str) -> None:
        assert not rules.valid(action, REF_RESULTS)

    def test_an_invalid_action_ends_guidance_although_the_outcome_agrees(self) -> None:
        result = check(HOME, "search[ ]", REF_RESULTS, ("search[mug]", REF_RESULTS), PRODUCT)
        assert result.reason is Reason.INVALID_ACTION


class TestOrdinaryComparison:
    """ "We compare normalized next observations and, for nonterminal transitions, the available-action lists
    after case folding, whitespace normalization, and sorting." """

    PAGE = item("b000000002", "red")

    def reason(self, after: Observation, expected: Observation | None = None) -> Reason:
        expected = self.PAGE if expected is None else expected
        return check(item("b000000002"), "click[red]", after, ("click[large]", expected)).reason

    def test_equal_pages_are_aligned_whatever_the_action(self) -> None:
        assert self.reason(self.PAGE) is Reason.NONE

    def test_notices_of_clicks_are_removed(self) -> None:
        """ "Observation comparison additionally removes click-notification lines of the form You have
        clicked ..." """
        assert self.reason(item("b000000002", "Large", "red")) is Reason.NONE
        assert self.reason(item("b000000002")) is Reason.NONE
        spaced = replace(self.PAGE, text=self.PAGE.text.replace("You have clicked", "  YOU  have clicked"))
        assert self.reason(spaced) is Reason.NONE

    def test_only_whole_notice_lines_are_removed(self) -> None:
        other = replace(self.PAGE, text=self.PAGE.text + "\nReview: You have clicked well")
        assert self.reason(other) is Reason.OBSERVATION

    def test_the_marking_of_a_clicked_option_stays(self) -> None:
        one = replace(self.PAGE, text=self.PAGE.text + "\n  [button] red [button_]")
        two = replace(self.PAGE, text=self.PAGE.text + "\n  [clicked button] red [clicked button_]")
        assert self.reason(one, two) is Reason.OBSERVATION

    def test_the_instruction_block_is_retained(self) -> None:
        """ "The repeated instruction block is retained in these comparisons" """
        assert (
            self.reason(replace(self.PAGE, text=self.PAGE.text.replace("red mug", "jug"))) is Reason.OBSERVATION
        )
        assert (
            self.reason(replace(self.PAGE, text=self.PAGE.text.replace(INSTRUCTION, ""))) is Reason.OBSERVATION
        )

    def test_another_product_has_diverged(self) -> None:
        assert self.reason(item("b000000007", "red")) is Reason.OBSERVATION

    def test_order_case_and_spacing_of_available_actions_do_not_matter(self) -> None:
        shuffled = tuple(action.upper().replace(" ", "  ") for action in reversed(self.PAGE.admissible))
        assert self.reason(replace(self.PAGE, admissible=shuffled)) is Reason.NONE

    def test_available_actions_are_lists_so_repetitions_count(self) -> None:
        twice = (*self.PAGE.admissible, "click[red]")
        assert self.reason(replace(self.PAGE, admissible=twice)) is Reason.ACTIONS

    def test_a_missing_or_additional_action_has_diverged(self) -> None:
        assert self.reason(replace(self.PAGE, admissible=self.PAGE.admissible[1:])) is Reason.ACTIONS
        assert (
            self.reason(replace(self.PAGE, admissible=(*self.PAGE.admissible, "click[blue]"))) is Reason.ACTIONS
        )

    def test_the_search_bar_is_an_available_action(self) -> None:
        assert self.reason(replace(self.PAGE, templates=SEARCH)) is Reason.ACTIONS

    def test_terminal_transitions_compare_the_observation_only(self) -> None:
        """ "Terminal transitions require matching normalized observations but no available-action
        comparison." """
        assert (
            self.reason(replace(BOUGHT, admissible=("click[search]",), templates=SEARCH), BOUGHT) is Reason.NONE
        )
        assert (
            self.reason(replace(BOUGHT, text=BOUGHT.text.replace("1.0", "0.5")), BOUGHT) is Reason.OBSERVATION
        )

    def test_the_termination_flag_must_agree(self) -> None:
        assert self.reason(replace(self.PAGE, done=True)) is Reason.TERMINATION
        assert self.reason(replace(BOUGHT, done=False), BOUGHT) is Reason.TERMINATION


class TestDifferentSearchResults:
    """ "We permit different nonterminal search results when both the student and reference actions are searches
    and the product identifier in the reference's immediately following click action remains clickable." """

    REFERENCE = ("search[red mug]", REF_RESULTS)

    def test_permitted_while_the_reference_product_is_among_them(self) -> None:
        result = check(HOME, "search[mug in red]", OTHER_RESULTS, self.REFERENCE, PRODUCT)
        assert result == CheckResult(Reason.NONE, Carry("b000000002"))
        assert result.aligned

    def test_not_permitted_without_the_reference_product(self) -> None:
        result = check(HOME, "search[pink]", WITHOUT_PRODUCT, self.REFERENCE, PRODUCT)
        assert result == CheckResult(Reason.PRODUCT)
        assert not result.aligned

    def test_a_product_that_is_shown_but_not_clickable_does_not_count(self) -> None:
        shown = replace(WITHOUT_PRODUCT, text=OTHER_RESULTS.text)
        assert not check(HOME, "search[pink]", shown, self.REFERENCE, PRODUCT).aligned

    @pytest.mark.parametrize(
        "following", [None, "click[next >]", "click[Back to Search]", "search[mug]", "click[]", "b000000002"]
    )
    def test_not_permitted_unless_the_reference_clicks_a_product_next(self, following: str | None) -> None:
        result = check(HOME, "search[mug in red]", OTHER_RESULTS, self.REFERENCE, following)
        assert result == CheckResult(Reason.OBSERVATION)

    def test_not_permitted_when_only_one_of_the_actions_is_a_search(self) -> None:
        clicked = ("click[search]", REF_RESULTS)
        assert not check(HOME, "search[red mug]", OTHER_RESULTS, clicked, PRODUCT).aligned
        assert not check(HOME, "click[search]", OTHER_RESULTS, self.REFERENCE, PRODUCT).aligned

    def test_not_permitted_on_terminal_transitions(self) -> None:
        ended, expected = replace(OTHER_RESULTS, done=True), replace(REF_RESULTS, done=True)
        result = check(HOME, "search[mug]", ended, ("search[red mug]", expected), PRODUCT)
        assert result == CheckResult(Reason.OBSERVATION)
        assert check(HOME, "search[mug]", ended, self.REFERENCE, PRODUCT) == CheckResult(Reason.TERMINATION)

    def test_equal_results_need_no_permission_and_carry_nothing(self) -> None:
        for following in (PRODUCT, "click[next >]", None):
            result = check(HOME, "search[mug in red]", REF_RESULTS, self.REFERENCE, following)
            assert result == CheckResult(Reason.NONE, Carry())

    def test_results_that_differ_only_in_their_actions_are_permitted_too(self) -> None:
        fewer = replace(REF_RESULTS, admissible=("click[back to search]", "click[b000000002]"))
        assert check(HOME, "search[mug]", fewer, self.REFERENCE, PRODUCT) == CheckResult(
            carry=Carry("b000000002")
        )


class TestTurnAfterDifferentSearchResults:
    """ "The search-result mismatch is also allowed at the next turn, provided that the reference product
    remains clickable; the subsequent click transition must satisfy the ordinary comparison rules." """

    CARRY = Carry("b000000002")
    PAGE = item("b000000002")

    def after_click(self, before: Observation, action: str, after: Observation) -> CheckResult:
        return check(before, action, after, (PRODUCT, self.PAGE), "click[red]", self.CARRY)

    def test_starting_on_other_results_is_allowed(self) -> None:
        assert self.after_click(OTHER_RESULTS, "click[b000000002]", self.PAGE) == CheckResult()

    def test_not_if_the_product_is_no_longer_clickable_there(self) -> None:
        """The outcome agrees and the action is valid: it is the carried condition that fails."""
        result = self.after_click(WITHOUT_PRODUCT, "click[b000000009]", self.PAGE)
        assert result == CheckResult(Reason.PRODUCT)

    def test_the_click_transition_is_compared_as_usual(self) -> None:
        assert (
            self.after_click(OTHER_RESULTS, "click[b000000009]", item("b000000009")).reason
            is Reason.OBSERVATION
        )
        renamed = replace(self.PAGE, admissible=self.PAGE.admissible[1:])
        assert self.after_click(OTHER_RESULTS, PRODUCT, renamed).reason is Reason.ACTIONS
        assert self.after_click(OTHER_RESULTS, PRODUCT, BOUGHT).reason is Reason.TERMINATION

    def test_another_page_of_results_is_no_substitute_for_the_click(self) -> None:
        again = results("b000000002", "b000000004")
        assert self.after_click(OTHER_RESULTS, "click[next >]", again) == CheckResult(Reason.OBSERVATION)

    def test_a_second_search_is_invalid_without_a_search_bar(self) -> None:
        result = self.after_click(OTHER_RESULTS, "search[mug]", OTHER_RESULTS)
        assert result == CheckResult(Reason.INVALID_ACTION)

    def test_the_allowance_ends_with_the_click(self) -> None:
        clicked = self.after_click(OTHER_RESULTS, PRODUCT, self.PAGE)
        back = check(
            self.PAGE, "click[< prev]", OTHER_RESULTS, ("click[< prev]", REF_RESULTS), None, clicked.carry
        )
        assert clicked.carry == Carry()
        assert back == CheckResult(Reason.OBSERVATION)


def test_a_whole_purchase_stays_guided_through_a_different_query() -> None:
    """Search differently, click the product, choose in another order of notices, buy."""
    turns = [
        ("search[mug red]", OTHER_RESULTS, "search[red mug]", REF_RESULTS),
        ("click[b000000002]", item("b000000002"), PRODUCT, item("b000000002")),
        ("click[red]", item("b000000002", "red"), "click[red]", item("b000000002", "red")),
        ("click[buy now]", BOUGHT, "click[buy now]", BOUGHT),
    ]
    before, carry = HOME, Carry()
    for number, (action, after, reference_action, expected) in enumerate(turns):
        following = turns[number + 1][2] if number + 1 < len(turns) else None
        result = check(before, action, after, (reference_action, expected), following, carry)
        assert result.aligned, (number, result.reason)
        before, carry = after, result.carry
    assert carry == Carry()
