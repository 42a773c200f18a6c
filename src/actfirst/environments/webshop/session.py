"""One shopper in the shop: how an action leads from page to page, as in the original's text environment.

This is the simulator alone. It ends nothing by itself: after a purchase the done page stays until the next
search, and there is no limit on steps. `environment.py` turns it into an episode.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from actfirst.environments.webshop.goals import Goal
from actfirst.environments.webshop.nouns import Nouns
from actfirst.environments.webshop.pages import (
    BACK_TO_SEARCH,
    BUY,
    NEXT,
    PER_PAGE,
    PREVIOUS,
    SEARCH,
    SUB_PAGES,
    Kind,
    Piece,
    done_page,
    home_page,
    item_page,
    results_page,
    sub_page,
)
from actfirst.environments.webshop.products import Product
from actfirst.environments.webshop.reward import reward
from actfirst.environments.webshop.shelf import Shelf

_ADDRESS = "http://127.0.0.1:3000"
# The kind of a page is told from its address by the first of these names in it. The address holds the search
# words too, so a search for one of the names confuses the original, and us.
_PAGE_NAMES = ("search_results", "item_page", "item_sub_page", "done")
_RANDOM_PRODUCTS = 50

Search = Callable[[str], Sequence[str]]
"""From a query to the asins of the products found, best first."""


@dataclass(frozen=True, slots=True)
class Shop:
    """What all shoppers share: products, prices by asin, the search, and the noun tagger of the reward."""

    shelf: Shelf
    price: Callable[[str], float]
    search: Search
    nouns: Nouns


def parse_action(action: str) -> tuple[str, str] | None:
    """The verb, and the argument in lower case; None for anything that is not an action. What follows the last
    closing bracket does not matter, and the verb reaches up to the last opening one.

    This is the original's pattern `(.+)\\[(.+)\\]` without its work, which grows with the square of the length.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, end - 1) if end > 2 else -1
    return None if start < 0 else (line[:start], line[start + 1 : end].lower())


class Session:
    """A shopper with a goal. `name` is the original's session id; it stands in page addresses only."""

    def __init__(self, shop: Shop, goal: Goal, name: str) -> None:
        self._shop = shop
        self._goal = goal
        self._name = name
        self._words: list[str] = []
        self._number = 1
        self._asin = ""
        self._chosen: dict[str, str] = {}
        self._visited: set[str] = set()
        self._go_home()

    @property
    def observation(self) -> str:
        return self._page.text(self._address, self._visited)

    @property
    def clickables(self) -> list[str]:
        return list(self._page.clickables())

    @property
    def search_bar(self) -> bool:
        return self._page.search_bar

    @property
    def state(self) -> str:
        """Equal for equal situations of the same goal."""
        facts = [self._name, self._place, self._words, self._number, self._asin]
        marks = [sorted(self._chosen.items()), sorted(self._visited)]
        return sha256(json.dumps([*facts, *marks]).encode()).hexdigest()[:16]

    def step(self, action: str) -> tuple[float, bool]:
        """Carry out an action; whatever is none, or cannot be done here, changes nothing. Returns what a purchase
        brought, and whether there was one."""
        match parse_action(action):
            case ("search", query):
                self._look_up(query.split(" "), 1)
            case ("click", target) if target != SEARCH.lower():
                piece = self._page.clickables().get(target)
                if piece is not None:
                    return self._click(target, piece)
        return 0.0, False

    def _click(self, target: str, piece: Piece) -> tuple[float, bool]:
        """What a click does depends on the text that is clicked before it depends on what shows the text."""
        page = next((name for name in _PAGE_NAMES if name in self._address), "")
        if target == BUY.lower():
            return self._buy(), True
        if target == BACK_TO_SEARCH.lower():
            self._go_home()
        elif target == NEXT.lower() and page == "search_results":
            self._look_up(self._words, self._number + 1)
        elif target == PREVIOUS.lower() and page == "search_results":
            self._look_up(self._words, self._number - 1)
        elif target == PREVIOUS.lower() and page == "item_page":
            self._look_up(self._words, self._number)
        elif target in map(str.lower, SUB_PAGES):
            self._open_sub_page(target.capitalize())
        else:
            self._open_item(target, piece)
        return 0.0, False

    def _go_home(self) -> None:
        self._words, self._number, self._asin = [], 1, ""
        self._chosen, self._visited = {}, set()
        self._place = "home"
        self._page = home_page(self._goal.instruction)
        self._address = f"{_ADDRESS}/{self._name}"

    def _look_up(self, words: list[str], number: int) -> None:
        found = self._found(words)
        if found is None:
            return
        self._words, self._number, self._asin, self._chosen = words, number, "", {}
        shown = found[(number - 1) * PER_PAGE : number * PER_PAGE]
        products = [self._shop.shelf[position] for position in shown]
        self._place = "results"
        self._page = results_page(self._goal.instruction, products, number, len(found))
        self._address = f"{_ADDRESS}/search_results/{self._name}/{'+'.join(words)}/{number}"

    def _found(self, words: list[str]) -> Sequence[int] | None:
        """Positions of the products found. `<r>`, `<c>` and `<q>` as first word ask for random products, a category
        or a product query. None where the original fails: for `<a>`, and for `<c>` alone."""
        shelf = self._shop.shelf
        match words:
            case ["<r>", *_]:
                return random.Random(self._name).sample(range(len(shelf)), min(_RANDOM_PRODUCTS, len(shelf)))
            case ["<a>", *_] | ["<c>"]:
                return None
            case ["<c>", category, *_]:
                return shelf.categories.positions(category.strip())
            case ["<q>", *rest]:
                return shelf.queries.positions(" ".join(rest).strip())
        positions = (shelf.position(asin) for asin in self._shop.search(" ".join(words)))
        return [position for position in positions if position is not None]

    def _open_item(self, target: str, piece: Piece) -> None:
        if piece.kind is Kind.PRODUCT:
            if self._shop.shelf.position(target.upper()) is None:
                return  # an asin in lower case: the original fails
            self._asin = target.upper()
            self._visited.add(self._asin)
        elif piece.kind is Kind.OPTION:
            self._chosen[piece.group.lower()] = target
        self._place = "item"
        self._page = item_page(self._goal.instruction, self._product())
        self._address = self._product_address("item_page", f"{self._number}/{json.dumps(self._chosen)}")

    def _open_sub_page(self, name: str) -> None:
        self._place = name
        self._page = sub_page(self._goal.instruction, self._product(), name)
        self._address = self._product_address("item_sub_page", f"{self._number}/{name}/{self._chosen}")

    def _buy(self) -> float:
        product = self._product()
        gained = reward(product, self._shop.price(self._asin), self._chosen, self._goal, self._shop.nouns)
        self._place = "done"
        self._page = done_page(self._asin, self._chosen, gained)
        self._address = f"{_ADDRESS}/done/{self._name}/{self._asin}/{self._chosen}"
        return gained

    def _product(self) -> Product:
        position = self._shop.shelf.position(self._asin)
        assert position is not None, "pages about a product are reached from its link only"
        return self._shop.shelf[position]

    def _product_address(self, kind: str, rest: str) -> str:
        return f"{_ADDRESS}/{kind}/{self._name}/{self._asin}/{'+'.join(self._words)}/{rest}"
