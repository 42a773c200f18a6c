"""Where things usually are: what somebody knows of ALFWorld houses who has been in all of the training ones.

`prior.json` says for each kind of object how often a receptacle of each kind holds one at the start of a training game,
in per cent. No game of another split is counted, and nothing is said of a single house. `count_places` made it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from actfirst.environments.alfworld.belief import kind_of
from actfirst.environments.alfworld.game import Game
from actfirst.reading import parse_json

FILE = "prior.json"
Shares = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Prior:
    """The share of receptacles of a kind that hold an object of a kind: `shares[object][receptacle]`, in per cent."""

    shares: Shares

    def order(self, wanted: str, places: Sequence[str]) -> list[str]:
        """Likely places first. Kinds that differ by less than a factor of two or so count as equally likely, and among
        those the order is that of `places`: so there are few orders to learn, and each is easy to follow."""
        known = self.shares.get(wanted, {})
        return sorted(places, key=lambda place: -_level(known.get(kind_of(place), 0.0)))


def _level(share: float) -> int:
    """0 for almost never, then one more for each doubling from one per cent on."""
    return int(share).bit_length()


@cache
def training_prior() -> Prior:
    """What the published training games teach."""
    text = (files("actfirst.environments.alfworld") / FILE).read_text(encoding="utf-8")
    return Prior(parse_json(text))


def count_places(games: Iterable[Game]) -> dict[str, dict[str, float]]:
    """The shares over some games, by name."""
    receptacles: Counter[str] = Counter()
    holding: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for game in games:
        inside: defaultdict[str, set[str]] = defaultdict(set)
        for fact in game.facts:
            if fact[0] == "inreceptacle" and fact[1] in game.names and fact[2] in game.receptacle_type:
                inside[fact[2]].add(kind_of(game.names[fact[1]]))
        for receptacle in game.receptacle_type:
            kind = kind_of(game.names[receptacle])
            receptacles[kind] += 1
            for item in inside[receptacle]:
                holding[item][kind] += 1
    return {
        item: {
            kind: share for kind in sorted(found) if (share := round(100 * found[kind] / receptacles[kind], 1))
        }
        for item, found in sorted(holding.items())
    }
