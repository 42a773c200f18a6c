"""The words of the shop: a product's number is one token, and so are its title, each of its options and every button.

Whoever reads it copies numbers and options and never a title, of which there are ten on a page of results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actfirst.environments.lexicon import Lexicon

if TYPE_CHECKING:
    from actfirst.environments.webshop.world import WebshopWorld

_BUTTONS = ("Back to Search", "< Prev", "Next >", "Description", "Features", "Reviews", "Buy Now", "Search")
_PHRASES = (
    *(f"[button] {button} [button_]" for button in _BUTTONS),
    *(f"'click[{button.lower()}]'," for button in _BUTTONS),
    "'search[<your query>]',",
    "Rating: N.A.",
    "Thank you for shopping with us!",
    " (Paste it in your MTurk interface.)",
    "Your score (min 0.0, max 1.0)",
)
_ASIN = r"[Bb][0-9][0-9A-Za-z]{2,8}\b"
_PIECES = (
    r"\[(?:clicked )?button\](?: (?=B[0-9]))?",
    r"  \[(?:clicked )?button\](?= )",
    r" \[(?:clicked )?button_\]",
    r"'?(?:click|search)\[",
    r"\]',",
    rf" (?={_ASIN})",  # a space does not belong to it, as it would to a word
    _ASIN,
    r"(?:You have clicked|Price:)(?= )",
    r" \(Total results: \d+\)",
    r" ?\$",
)


def _names(world: WebshopWorld) -> Iterator[str]:
    shelf = world.shop.shelf
    for product in (shelf[place] for place in range(len(shelf))):
        yield f"{product.asin} {product.asin.lower()}"
        yield product.price_tag
        yield f"{product.instruction or ''} [{(product.instruction or '').removeprefix('Find me ')}"
        for group, values in product.options:
            yield from (f"{group}: {value}\nclick[{value}]" for value in values)


def _wholes(world: WebshopWorld) -> Iterator[str]:
    shelf = world.shop.shelf
    for product in (shelf[place] for place in range(len(shelf))):
        yield product.title
        for _, values in product.options:
            for value in filter(_several_words, values):
                yield from (value, f" {value}")


def _several_words(value: str) -> bool:
    """Numbers do not count, which stand in prices, too."""
    return not value.isalnum() and any(map(str.isalpha, value))


LEXICON = Lexicon(_PHRASES, _PIECES, _names, _wholes, walks=200, akin=True)
