"""The words of the shop: a product's number is one token, and so are its title, each of its options and every button.

So is a whole line that holds a number or an option and nothing else. What can be done is a list of such lines: it is
gone through line by line, each of which leads to the next, and whether something is on a page is found by one look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actfirst.environments.lexicon import Lexicon

if TYPE_CHECKING:
    from actfirst.environments.webshop.world import WebshopWorld

_BUTTONS = ("Back to Search", "< Prev", "Next >", "Description", "Features", "Reviews", "Buy Now", "Search")
_LISTED = "'click[{}]',\n"
_RESULTS = ("[button] {} [button_]\n", "[clicked button] {} [clicked button_]\n")
_OPTIONS = ("  [button] {} [button_]\n", "  [clicked button] {} [clicked button_]\n")
_PHRASES = (
    *(f"[button] {button} [button_]" for button in _BUTTONS),
    *(f"'click[{button.lower()}]',\n" for button in _BUTTONS),
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
    r"\n\$(?=\d)",
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
        yield _LISTED.format(product.asin.lower())
        yield from (line.format(product.asin) for line in _RESULTS)
        for _, values in product.options:
            for value in values:
                if several := _several_words(value):
                    yield from (value, f" {value}")
                if several or value.isalpha() or value.isdecimal():
                    yield from (line.format(value) for line in (_LISTED, *_OPTIONS))


def _several_words(value: str) -> bool:
    """Numbers do not count, which stand in prices, too."""
    return not value.isalnum() and any(map(str.isalpha, value))


LEXICON = Lexicon(
    _PHRASES, _PIECES, _names, _wholes, walks=200, spellings=("{}", _LISTED, *_RESULTS, *_OPTIONS)
)
