"""The shop's pages as lists of pieces, and how pieces become text and clickable elements.

A page of the original is HTML, and its `text_rich` observation what remains of it: one line per piece of text, with
marks around what can be clicked. Here pages are made of those pieces at once. The wording is the original's, its
two slips (`instuction`, and the MTurk line of the last page) included.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from actfirst.environments.webshop.products import Product

SEARCH = "Search"
BACK_TO_SEARCH = "Back to Search"
PREVIOUS = "< Prev"
NEXT = "Next >"
BUY = "Buy Now"
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
"""Pages about one product. The last has no button, but an option of that name leads there."""

PER_PAGE = 10
_HTML_SPACES = " \n\t\f\r"


class Kind(StrEnum):
    """What a piece of a page is."""

    TEXT = "text"
    BUTTON = "button"
    PRODUCT = "product"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a page. `group` is the option group of an option."""

    kind: Kind
    text: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What the shop shows. Only the home page has a search bar."""

    pieces: tuple[Piece, ...]
    search_bar: bool = False

    def clickables(self) -> dict[str, Piece]:
        """What can be clicked, by its text: buttons, then products, then options. Of equals the last counts,
        at the place of the first."""
        return {
            piece.text if kind is Kind.OPTION else piece.text.lower(): piece
            for kind in (Kind.BUTTON, Kind.PRODUCT, Kind.OPTION)
            for piece in self.pieces
            if piece.kind is kind
        }

    def text(self, address: str, visited: Collection[str]) -> str:
        """The `text_rich` observation. An option is marked where its value stands in quotes in the page's
        address, which holds the chosen options as JSON, and the words that were searched for."""
        notices: list[str] = []
        lines: list[str] = []
        for piece in self.pieces:
            text = _node(piece.text)
            if text is None:
                continue
            if piece.kind is Kind.BUTTON:
                lines.append(_marked(text, clicked=False))
            elif piece.kind is Kind.OPTION:
                chosen = f'"{text}"' in address
                if chosen:
                    notices.append(f"You have clicked {text}.")
                lines.append("  " + _marked(text, chosen))
            elif piece.kind is Kind.PRODUCT:
                lines.append("\n" + _marked(text, text in visited))
            else:
                lines.append(text)
        return "".join(f"{line}\n" for line in [*reversed(notices), *lines])


def home_page(instruction: str) -> Page:
    return Page((*_texts("WebShop", "Instruction: ", instruction), _button(SEARCH)), search_bar=True)


def results_page(instruction: str, products: Iterable[Product], number: int, total: int) -> Page:
    pieces = [*_head(instruction), *_texts(f"Page {number} (Total results: {total})")]
    if number > 1:
        pieces.append(_button(PREVIOUS))
    pieces.append(_button(NEXT))
    for product in products:
        pieces.append(Piece(Kind.PRODUCT, product.asin))
        pieces.extend(_texts(product.title, product.price_tag))
    return Page(tuple(pieces))


def item_page(instruction: str, product: Product) -> Page:
    pieces = [*_head(instruction), _button(PREVIOUS)]
    for group, values in product.options:
        pieces.extend(_texts(group))
        pieces.extend(Piece(Kind.OPTION, value, group) for value in values)
    pieces.extend(_texts(product.title, f"Price: {product.price_tag}", "Rating: N.A."))
    pieces.extend(map(_button, (*SUB_PAGES[:3], BUY)))
    return Page(tuple(pieces))


def sub_page(instruction: str, product: Product, name: str) -> Page:
    """One of SUB_PAGES. There are no reviews in the files, so their page is empty."""
    about: Sequence[str] = ()
    if name == "Description":
        about = (product.description,)
    elif name == "Features":
        about = [f" {bullet}" for bullet in product.bullets]
    elif name == "Attributes":
        attributes = [f" {attribute}" for attribute in product.attributes]
        about = (*attributes, product.category, product.query, product.product_category)
    return Page((*_head(instruction), _button(PREVIOUS), *_texts(*about)))


def done_page(asin: str, chosen: Mapping[str, str], reward: float) -> Page:
    return Page(
        tuple(
            _texts(
                *("Thank you for shopping with us!", "Your code: ", "None"),
                *(" (Paste it in your MTurk interface.)", "Purchased", "asin", asin, "options", _json(chosen)),
                *("attrs", "None", "category", "None", "query", "None", "product category", "None"),
                *("Target", "asin", "options", "attrs", "price upper", "instuction text", "category"),
                *("product category", "query", "Goal ", "None", "Reward"),
                *("Your score (min 0.0, max 1.0)", str(reward), "Reward Details ", "None"),
            )
        )
    )


def _head(instruction: str) -> list[Piece]:
    return [*_texts("Instruction:", instruction), _button(BACK_TO_SEARCH)]


def _texts(*texts: str) -> list[Piece]:
    return [Piece(Kind.TEXT, text) for text in texts]


def _button(text: str) -> Piece:
    return Piece(Kind.BUTTON, text)


def _marked(text: str, clicked: bool) -> str:
    mark = "clicked button" if clicked else "button"
    return f"[{mark}] {text} [{mark}_]"


def _node(text: str) -> str | None:
    """A text as it survives in HTML: nothing but spaces becomes one space, or vanishes if a line ends in it."""
    if text.strip(_HTML_SPACES):
        return text
    return None if not text or "\n" in text else " "


def _json(chosen: Mapping[str, str]) -> str:
    """Options as the last page shows them: sorted, ASCII, and safe inside HTML."""
    text = json.dumps(dict(chosen), sort_keys=True)
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
