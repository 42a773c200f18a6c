"""The words of the shop: a product's number is one token, and so is every button of its pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actfirst.environments.lexicon import Lexicon

if TYPE_CHECKING:
    from actfirst.environments.webshop.world import WebshopWorld

_NAVIGATION = tuple(
    f"[button] {button} [button_]\n"
    for button in ("Back to Search", "< Prev", "Next >", "Description", "Features", "Reviews", "Buy Now")
)
_PURCHASED = (
    "Thank you for shopping with us!\nYour code: \nNone\n (Paste it in your MTurk interface.)\nPurchased\nasin\n"
)
_NOT_TOLD = (
    "\nattrs\nNone\ncategory\nNone\nquery\nNone\nproduct category\nNone\nTarget\nasin\noptions\nattrs\nprice upper\n"
    "instuction text\ncategory\nproduct category\nquery\nGoal \nNone\nReward\nYour score (min 0.0, max 1.0)\n"
)
_PHRASES = (
    *_NAVIGATION,
    "WebShop\nInstruction: \n",
    "Instruction:\n",
    "[button] Search [button_]\n",
    "Rating: N.A.\n",
    _PURCHASED,
    _NOT_TOLD,
    "\nReward Details \nNone\n",
)
_PIECES = (
    r"\n\[(?:clicked )?button\] ",
    r"  \[(?:clicked )?button\](?= )",
    r" \[(?:clicked )?button_\]\n",
    r"',\n'click\[",
    r"'?(?:click|search)\[",
    r"\]',?(?=\n)",
    r" ?[Bb][0-9][0-9A-Za-z]{8}\b",
    r"(?:Page|You have clicked|Price:)(?= )",
    r" \(Total results: \d+\)\n",
    r" ?\$",
)


def _names(world: WebshopWorld) -> Iterator[str]:
    for product in world.shop.shelf:
        yield f"{product.asin} {product.asin.lower()}"
        yield f"[button] {product.asin} {product.asin.lower()}"
        yield f"{product.title}\n{product.price_tag}"
        for group, values in product.options:
            yield from (f"{group}: {value}\n'click[{value}]'" for value in values)


LEXICON = Lexicon(_PHRASES, _PIECES, _names)
