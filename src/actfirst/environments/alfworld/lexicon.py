"""The words of ALFWorld's houses: a name with its number is one token, and so are stock phrases of observations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from actfirst.environments.alfworld.sources import GameWorld
from actfirst.environments.lexicon import Lexicon

_PHRASES = (
    "-= Welcome to TextWorld, ALFRED! =-",
    "You are in the middle of a room. Looking quickly around you, you see",
    "Your task is to:",
    "You arrive at",
    ". On the",
    ", you see",
    " is open. In it, you see",
    "You open the",
    "You close the",
    "You pick up the",
    "You move the",
    "You clean the",
    "You heat the",
    "You cool the",
    "You turn on the",
    "You sliced the",
    " using the",
    "Nothing happens.",
    "You are facing the",
    ". Next to it, you see",
    "You are carrying:",
    "You are not carrying anything.",
    "There's nothing special about",
)

_PIECES = (
    r"', 'go to(?= )",
    r"', '",
    r", (?:and )?a(?= )",
    r"\. The(?= [a-z]+ \d)",
    r" is closed",
    r" ?[a-z]+ \d+",
)


def numbered_names(highest: Mapping[str, int]) -> Iterator[str]:
    """Every name of things and places; `highest` says how high each kind is numbered."""
    for kind, last in highest.items():
        yield f"a {kind}"
        for number in range(1, last + 1):
            yield f"a {kind} {number}"
            yield f" {number}"


def _names(world: GameWorld) -> Iterator[str]:
    highest: Counter[str] = Counter()
    for task in world.tasks("train"):
        game = world.game(task)
        for thing in (*game.object_type, *game.receptacle_type):
            kind, _, number = game.names[thing].rpartition(" ")
            highest[kind] = max(highest[kind], int(number))
    return numbered_names(highest)


LEXICON = Lexicon(_PHRASES, _PIECES, _names)
