"""What a purchase is worth: WebShop's reward in [0, 1].

The share of wanted attributes, options and price that the purchase meets, times how far the product is of the
wanted kind. Pure functions; the noun tagger is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping

from actfirst.environments.webshop.fuzzy import alike
from actfirst.environments.webshop.goals import Goal, Option
from actfirst.environments.webshop.nouns import Nouns
from actfirst.environments.webshop.products import Product

_COLOUR_WORDS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy
camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral
cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass
gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon
mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter
pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone
stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow
"""
COLOURS = tuple(_COLOUR_WORDS.split())
"""Colour words in the order in which they are looked for: an option is reduced to the first that it contains."""

_CATEGORY_SEPARATOR = "\u203a"
_SHARED_PARTS = 2
_UNKNOWN_TITLE_SCORE = 0.2


def reward(product: Product, price: float, chosen: Mapping[str, str], goal: Goal, nouns: Nouns) -> float:
    """The reward for buying `product` with the `chosen` options (group to value)."""
    hits = _attribute_hits(product, goal) + _option_hits(chosen, goal) + (price <= goal.price_cap)
    wanted = len(goal.attributes) + len(goal.options) + 1
    return hits / wanted * type_factor(product, goal, nouns)


def type_factor(product: Product, goal: Goal, nouns: Nouns) -> float:
    """1 for a product of the wanted kind, less for others, 0 for a title that shares no noun with the goal's."""
    score = _title_score(product.title, goal.name, nouns)
    if score == 0.0:
        return 0.0
    if score < 0.1:
        return 0.1
    same_category = len(_parts(product.product_category) & _parts(goal.product_category)) >= _SHARED_PARTS
    return 1.0 if product.query == goal.query or same_category or score > 0.2 else 0.5


def colour_of(option: Option) -> Option:
    """The first colour word in an option, else the option. A (group, value) pair contains only its two members."""
    return next((colour for colour in COLOURS if colour in option), option)


def _title_score(bought: str, wanted: str, nouns: Nouns) -> float:
    wanted_nouns = nouns(wanted)
    if not wanted_nouns:
        return _UNKNOWN_TITLE_SCORE
    return len(set(nouns(bought)) & set(wanted_nouns)) / len(wanted_nouns)


def _parts(category: str) -> set[str]:
    return {part.strip() for part in category.split(_CATEGORY_SEPARATOR)}


def _attribute_hits(product: Product, goal: Goal) -> int:
    texts = (product.title.lower(), " ".join(product.bullets).lower(), product.description.lower())
    return sum(
        any(alike(attribute, wanted) for attribute in product.attributes)
        or any(wanted in text for text in texts)
        for wanted in goal.attributes
    )


def _option_hits(chosen: Mapping[str, str], goal: Goal) -> int:
    reduced = [str(colour_of(value)) for value in chosen.values()]
    # str() of a pair is what the original compares: quotes and brackets are dropped with all punctuation.
    return sum(any(alike(value, str(colour_of(wanted))) for value in reduced) for wanted in goal.options)
