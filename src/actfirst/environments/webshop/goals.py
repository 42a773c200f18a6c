"""What shoppers are asked to buy: goals written by people and goals made from product options.

Prices and price caps are drawn from private generators that start from a seed, so that a catalogue always has
the same goals; the original draws them unseeded. The order is the original's: shuffled with seed 233, and a goal
is known by its place in that order.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from actfirst.environments.webshop.products import Product

ORDER_SEED = 233
"""The seed of the goal order (paper, appendix "Benchmarks")."""

PRICE_SEED = 233
"""The seed of prices inside a price range, and of price caps. A choice of ours: the original has none."""

NO_CAP = 1_000_000.0
_LADDER = tuple(10.0 * step for step in range(1, 100))
_CAPS_CONSIDERED = 4

Option = str | tuple[str, str]
"""A wanted option: its value where a person wrote the goal, else (group, value)."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One instruction and what the reward compares a purchase with."""

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    price_cap: float
    options: tuple[Option, ...]


def draw_prices(pricings: Iterable[Sequence[float]], seed: int = PRICE_SEED) -> list[float]:
    """One price for every product: its own, or one inside its range."""
    rng = random.Random(seed)
    return [p[0] if len(p) == 1 else rng.uniform(p[0], p[1]) for p in pricings]


def draw_cap(price: float, rng: random.Random) -> float:
    """A price cap above a price: the larger of two of the next four steps of ten dollars, if there are two."""
    above = [step for step in _LADDER if step > price][:_CAPS_CONSIDERED]
    return max(rng.sample(above, 2)) if len(above) >= 2 else NO_CAP


def goal_order(count: int) -> Sequence[int]:
    """Which of the goals, as they were made, stands at each place of the shuffled list."""
    order = array("I", range(count))
    random.Random(ORDER_SEED).shuffle(order)
    return order


def human_goals(
    annotated: Iterable[tuple[Product, float, Sequence[Mapping[str, Any]]]], seed: int = PRICE_SEED
) -> list[Goal]:
    """Goals that people wrote, unshuffled: of products in catalogue order, with price and annotations."""
    rng = random.Random(seed)
    return [
        _goal(
            product,
            annotation["instruction"].strip("."),
            tuple(annotation["instruction_attributes"]),
            tuple(annotation["instruction_options"]),
            draw_cap(price, rng),
        )
        for product, price, annotations in annotated
        for annotation in annotations
        if annotation["instruction_attributes"]
    ]


def draw_caps(prices: Iterable[float], seed: int = PRICE_SEED) -> list[float]:
    """The caps of products that have a generated instruction, in catalogue order: one for all their goals."""
    rng = random.Random(seed)
    return [draw_cap(price, rng) for price in prices]


def made_goal(product: Product, cap: float, combination: int) -> Goal:
    """The goal for one combination of options: the last group, by name, changes fastest."""
    options: list[tuple[str, str]] = []
    for group, values in sorted(product.options, reverse=True):
        combination, place = divmod(combination, len(values))
        options.append((group, values[place]))
    options.reverse()
    text = ", and ".join(f"{group}: {value}" for group, value in options)
    instruction = f"{product.instruction} with {text}" if text else str(product.instruction)
    return _goal(product, instruction, product.instruction_attributes, tuple(options), cap)


def _goal(
    product: Product, text: str, attributes: tuple[str, ...], options: tuple[Option, ...], cap: float
) -> Goal:
    return Goal(
        asin=product.asin,
        category=product.category,
        query=product.query,
        name=product.title,
        product_category=product.product_category,
        instruction=text if cap == NO_CAP else f"{text}, and price lower than {cap:.2f} dollars",
        attributes=attributes,
        price_cap=cap,
        options=options,
    )


class MadeGoals(Sequence[Goal]):
    """All goals made from options, in shuffled order; each is put together when it is asked for.

    A full catalogue has millions of them, so only numbers are kept: how many goals there are up to and including
    each product (`ends`), the products' price caps, and the order.
    """

    def __init__(
        self,
        product: Callable[[int], Product],
        ends: Sequence[int] | NDArray[np.int64],
        caps: Sequence[float] | NDArray[np.float64],
        order: Sequence[int] | NDArray[np.uint32] | None = None,
    ) -> None:
        self._product = product
        self._ends = ends
        self._caps = caps
        self._order = goal_order(int(ends[-1]) if len(ends) else 0) if order is None else order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, place: int) -> Goal: ...

    @overload
    def __getitem__(self, place: slice) -> list[Goal]: ...

    def __getitem__(self, place: int | slice) -> Goal | list[Goal]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        number = int(self._order[place])
        position = bisect_right(self._ends, number)
        first = int(self._ends[position - 1]) if position else 0
        return made_goal(self._product(position), float(self._caps[position]), number - first)
