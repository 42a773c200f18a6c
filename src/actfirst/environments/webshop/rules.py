"""Transition rules of WebShop (paper, appendix "Transition Consistency Checks").

`Observation.admissible` holds `click[...]` strings, lower-case; `Observation.templates` holds the search
template while a search bar is available. Together they are the page's available actions.

The search rule, and what it carries. Two searches may lead to different results as long as the product that
the reference clicks next is among the student's. That turn is aligned, and its result carries the product. The
paper goes on: "The search-result mismatch is also allowed at the next turn, provided that the reference product
remains clickable; the subsequent click transition must satisfy the ordinary comparison rules." We read this as
a rule about the page on which the next turn starts, not the page to which it leads:
- the next turn *starts* on results that differ from the reference's. This alone does not end guidance; but if
  the carried product cannot be clicked there, the turn has diverged, whatever it led to;
- what the turn *leads to* is compared as usual: the reference is then on the product's page, so the student
  has to be there too, and another product or another page of results has diverged;
- nothing is carried further. Back on the results by `< prev`, a mismatch is a divergence.
The other reading, that the next turn may again lead to different results, has no case to apply to: the
reference's next action is the click, and a page of results has no search bar, so a second search is invalid.
If the reference's next action is not a click on a product (another page, another search, none), there is no
product to ask for, and differing results have diverged at the search itself.

Differing results may of course differ in their available actions too. The comparison of available actions is
of sorted lists, so repetitions count. It folds case and collapses whitespace, without NFKC, as the paper says.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from actfirst.environments.normalize import collapse, normalized_lines
from actfirst.environments.rules import Carry, CheckResult, Reason, Transition
from actfirst.records import Observation

# WebShop splits an action at its last `[`, reads no further than the line, and knows its two verbs in lower
# case only. An action of any other form does nothing there, so it must not count as valid here.
_ACTION = re.compile(r"(search|click)\[([^\[\n]+)\]")
_NOTIFICATION = "you have clicked "
_SEARCH_TEMPLATE = "search["
# On a page of results everything that can be clicked, except these, is a product.
_RESULT_PAGE_BUTTONS = frozenset(("back to search", "< prev", "next >"))


class ShopAction(NamedTuple):
    """A parsed action: the verb, and the query as written or the target in lower case."""

    verb: str
    argument: str


def parse_action(action: str) -> ShopAction | None:
    """`search[query]` or `click[target]`; None for anything that the shop would ignore."""
    match = _ACTION.fullmatch(action.strip())
    if match is None:
        return None
    verb, argument = match.groups()
    return ShopAction(verb, argument if verb == "search" else argument.lower())


class WebshopRules:
    """Equal pages and, unless the episode ended, equal available actions; search results may differ once."""

    def valid(self, action: str, observation: Observation) -> bool:
        parsed = parse_action(action)
        if parsed is None:
            return False
        if parsed.verb == "search":
            return bool(parsed.argument.strip()) and has_search_bar(observation)
        return _clickable(parsed.argument, observation)

    def compare(self, actual: Observation, reference: Observation) -> Reason:
        if actual.done != reference.done:
            return Reason.TERMINATION
        if _page(actual) != _page(reference):
            return Reason.OBSERVATION
        if not actual.done and _available(actual) != _available(reference):
            return Reason.ACTIONS
        return Reason.NONE

    def check(self, transition: Transition, carry: Carry) -> CheckResult:
        if not self.valid(transition.action, transition.before):
            return CheckResult(Reason.INVALID_ACTION)
        if carry.product and not _clickable(carry.product, transition.before):
            return CheckResult(Reason.PRODUCT)
        reason = self.compare(transition.after, transition.reference.observation)
        if reason in (Reason.OBSERVATION, Reason.ACTIONS):
            return _excuse_search_results(transition, reason)
        return CheckResult(reason)


def _excuse_search_results(transition: Transition, reason: Reason) -> CheckResult:
    """The search rule, for a transition that differs from its reference."""
    if transition.after.done or not _both_search(transition):
        return CheckResult(reason)
    product = _clicked_product(transition.reference_next_action)
    if product is None:
        return CheckResult(reason)
    if not _clickable(product, transition.after):
        return CheckResult(Reason.PRODUCT)
    return CheckResult(carry=Carry(product))


def _both_search(transition: Transition) -> bool:
    actions = (parse_action(transition.action), parse_action(transition.reference.action))
    return all(action is not None and action.verb == "search" for action in actions)


def _clicked_product(action: str | None) -> str | None:
    parsed = None if action is None else parse_action(action)
    if parsed is None or parsed.verb != "click" or parsed.argument in _RESULT_PAGE_BUTTONS:
        return None
    return parsed.argument


def has_search_bar(observation: Observation) -> bool:
    return any(template.startswith(_SEARCH_TEMPLATE) for template in observation.templates)


def _clickable(target: str, observation: Observation) -> bool:
    wanted = f"click[{target}]"
    return any(listed.lower() == wanted for listed in observation.admissible)


def _page(observation: Observation) -> list[str]:
    """The lines that are compared: everything, the instruction included, but the notices of earlier clicks."""
    return [line for line in normalized_lines(observation.text) if not line.startswith(_NOTIFICATION)]


def _available(observation: Observation) -> list[str]:
    return sorted(collapse(action.casefold()) for action in observation.admissible + observation.templates)
