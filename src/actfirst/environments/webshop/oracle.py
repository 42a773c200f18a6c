"""Purchases that reach the best score of a goal, found by someone who knows the goal and the shop's rules.

Candidates for reference trajectories (paper, "Reference Trajectories": oracle solutions constructed from
training-task goals). Each is a list of actions to be replayed; the best come first. Nothing here steps an environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from actfirst.environments.webshop.fuzzy import alike
from actfirst.environments.webshop.goals import Goal
from actfirst.environments.webshop.pages import BACK_TO_SEARCH, BUY, NEXT, PER_PAGE, PREVIOUS, SEARCH, SUB_PAGES
from actfirst.environments.webshop.products import Product
from actfirst.environments.webshop.reward import colour_of, reward
from actfirst.environments.webshop.session import Shop
from actfirst.environments.webshop.world import WebshopWorld
from actfirst.records import Task

_PRICE = re.compile(r", and price lower than [\d.]+ dollars$")
_TROUBLE = re.compile(r"[\[\]\s]+")
# Clicking one of these texts never chooses an option, whatever shows it.
_RESERVED = frozenset(text.lower() for text in (SEARCH, BACK_TO_SEARCH, PREVIOUS, NEXT, BUY, *SUB_PAGES))


@dataclass(frozen=True, slots=True)
class Purchase:
    """A product with the options to choose, and what buying it brings."""

    asin: str
    options: tuple[str, ...]
    reward: float


def oracle_candidates(world: WebshopWorld, task: Task, most: int = 5) -> Iterator[tuple[str, ...]]:
    """Action lists for a task: the best expected score first, then the shortest, then the likeliest search.

    The goal's own product is tried first; only if it does not reach the full reward, the other products that the
    searches find.
    """
    _, goal = world.find(task)
    shop = world.shop
    searches = list(_searches(goal))
    found = {query: list(shop.search(query)) for query in searches}
    plans = _plans(shop, goal, found, [goal.asin])
    if not plans or plans[0][0] > -1.0:
        plans = _plans(shop, goal, found, sorted(set().union(*found.values())))
    yield from islice((actions for *_, actions in plans), most)


def best_purchase(shop: Shop, goal: Goal, product: Product) -> Purchase:
    """The fewest options of a product that reach the best reward which it can bring."""
    # For every set of wanted options that can be met: the fewest values, one of each group, that meet it.
    met: dict[frozenset[int], dict[str, str]] = {frozenset(): {}}
    wanted = {option if isinstance(option, str) else option[1] for option in goal.options}
    for group, unordered in _choosable(product).items():
        values = sorted(
            unordered, key=lambda value: value not in wanted
        )  # of equally good values, the one asked for
        for before, chosen in list(met.items()):
            for value in values:
                after = before | _meets(value, goal)
                if after not in met or len(chosen) + 1 < len(met[after]):
                    met[after] = {**chosen, group: value}
    price = shop.price(product.asin)
    ways = sorted(met.values(), key=len)
    rewards = [reward(product, price, chosen, goal, shop.nouns) for chosen in ways]
    best = rewards.index(max(rewards))
    return Purchase(product.asin, tuple(ways[best].values()), rewards[best])


def _plans(
    shop: Shop, goal: Goal, found: Mapping[str, Sequence[str]], asins: Sequence[str]
) -> list[tuple[float, int, int, tuple[str, ...]]]:
    """(-reward, length, number of the search, actions) for each product and search that finds it, sorted."""
    plans: list[tuple[float, int, int, tuple[str, ...]]] = []
    for asin in asins:
        position = shop.shelf.position(asin)
        if position is None:
            continue
        purchase = best_purchase(shop, goal, shop.shelf[position])
        for number, (query, hits) in enumerate(found.items()):
            if asin in hits:
                actions = _actions(query, hits.index(asin), purchase)
                plans.append((-purchase.reward, len(actions), number, actions))
    return sorted(plans)


def _actions(query: str, place: int, purchase: Purchase) -> tuple[str, ...]:
    clicks = [NEXT] * (place // PER_PAGE) + [purchase.asin, *purchase.options, BUY]
    return (f"search[{query}]", *(f"click[{target.lower()}]" for target in clicks))


def _searches(goal: Goal) -> Iterator[str]:
    """What to search for, first what a shopper would type; brackets would end an action too early."""
    wish = _PRICE.sub("", goal.instruction)
    said = (f"{goal.query} {' '.join(goal.attributes)}", wish, goal.query, goal.name)
    clean = (_TROUBLE.sub(" ", text.lower()).strip() for text in said)
    yield from dict.fromkeys(text for text in clean if text)


def _choosable(product: Product) -> dict[str, list[str]]:
    """The values that a click chooses, by the group in which it does: of equal values the last."""
    owner = {value: group for group, values in product.options for value in values}
    groups: dict[str, list[str]] = {}
    for value, group in owner.items():
        if value and value not in _RESERVED and "[" not in value and "\n" not in value:
            groups.setdefault(group, []).append(value)
    return groups


def _meets(value: str, goal: Goal) -> frozenset[int]:
    reduced = str(colour_of(value))
    return frozenset(
        number for number, wanted in enumerate(goal.options) if alike(reduced, str(colour_of(wanted)))
    )
