"""Hand-made products and a shop that sells them, for tests of one rule at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from actfirst.environments.webshop.goals import Goal
from actfirst.environments.webshop.products import Product, read_product
from actfirst.environments.webshop.session import Session, Shop
from actfirst.environments.webshop.shelf import memory_shelf

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


ITEM = {
    "asin": "B1",
    "name": "Red Cup",
    "full_description": "A cup.",
    "small_description": ["Holds tea", "Is red"],
    "product_category": "Home \u203a Cups",
    "category": "home",
    "query": "cups",
    "pricing": "$9.50",
    "customization_options": {"Color": [{"value": "Red"}, {"value": "Blue"}], "Size": [{"value": "Big"}]},
}


def item(**changes: Any) -> dict[str, Any]:
    """An item as in the product file."""
    return {**ITEM, **changes}


def product(**changes: Any) -> Product:
    return replace(read_product(ITEM, {"attributes": ["dishwasher safe"]}), **changes)


def goal(**changes: Any) -> Goal:
    wanted = Goal(
        asin="B1",
        category="home",
        query="cups",
        name="Red Cup",
        product_category="Home \u203a Cups",
        instruction="i want a red cup",
        attributes=("dishwasher safe",),
        price_cap=10.0,
        options=(("color", "red"), ("size", "big")),
    )
    return replace(wanted, **changes)


def words(title: str) -> Sequence[str]:
    """A noun tagger to which every word is a noun."""
    return title.lower().split()


def session(
    *products: Product, search: Callable[[str], Sequence[str]] | None = None, wanted: Goal | None = None
) -> Session:
    """A shopper in a shop whose search finds everything, in order, unless told otherwise."""
    sold = products or (product(),)
    find = search or (lambda query: [one.asin for one in sold])
    prices = {one.asin: one.pricing[0] for one in sold}
    return Session(Shop(memory_shelf(sold), prices.__getitem__, find, words), wanted or goal(), "7")
