"""The changing part of a game: its positive facts, and the indexes that rules and texts look things up in.

`digest` identifies the set of facts. It is kept up to date fact by fact, so asking for it costs nothing.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterable, Sequence
from functools import lru_cache

from actfirst.environments.alfworld.game import Game
from actfirst.environments.alfworld.problem import Fact


@lru_cache(maxsize=1 << 16)
def _fact_code(fact: Fact) -> int:
    return int.from_bytes(hashlib.blake2b(" ".join(fact).encode(), digest_size=8).digest(), "big")


def digest_of(facts: Iterable[Fact]) -> str:
    """Equal for equal sets of facts, different for different ones."""
    code = 0
    for fact in set(facts):
        code ^= _fact_code(fact)
    return f"{code:016x}"


class State:
    """Where everything is. Lists of identifiers are sorted, as TextWorld enumerates them."""

    def __init__(self, game: Game) -> None:
        self._agent = game.agent
        self.facts: set[Fact] = set(game.facts)
        self._code = 0
        self.location = ""
        self.held = ""
        self._contents: dict[str, list[str]] = {}
        self._inside: dict[str, list[str]] = {}
        self._objects_at: dict[str, list[str]] = {}
        self._taken_from: set[tuple[str, str]] = set()
        for fact in sorted(self.facts):
            self._code ^= _fact_code(fact)
            if fact[0] == "inreceptacle":
                self._contents.setdefault(fact[2], []).append(fact[1])
            elif fact[0] == "objectatlocation":
                self._objects_at.setdefault(fact[2], []).append(fact[1])
            elif fact[0] == "inreceptacleobject":
                self._inside.setdefault(fact[2], []).append(fact[1])
            elif fact[0] == "atlocation":
                self.location = fact[2]

    @property
    def digest(self) -> str:
        return f"{self._code:016x}"

    def add(self, *fact: str) -> None:
        if fact not in self.facts:
            self.facts.add(fact)
            self._code ^= _fact_code(fact)

    def remove(self, *fact: str) -> None:
        if fact in self.facts:
            self.facts.remove(fact)
            self._code ^= _fact_code(fact)

    def holds(self, predicate: str, name: str) -> bool:
        """Whether a fact of one argument is true."""
        return (predicate, name) in self.facts

    def contents(self, receptacle: str) -> Sequence[str]:
        return self._contents.get(receptacle, ())

    def inside(self, item: str) -> Sequence[str]:
        """The objects in an object that is itself a vessel."""
        return self._inside.get(item, ())

    def objects_here(self) -> Sequence[str]:
        return self._objects_at.get(self.location, ())

    def was_taken_from(self, item: str, receptacle: str) -> bool:
        """Whether the item has been taken out of the receptacle, and not put back there since."""
        return (item, receptacle) in self._taken_from

    def go(self, location: str) -> None:
        self.remove("atlocation", self._agent, self.location)
        self.add("atlocation", self._agent, location)
        self.location = location

    def take(self, item: str, receptacle: str) -> None:
        self.remove("inreceptacle", item, receptacle)
        self.remove("objectatlocation", item, self.location)
        self.add("holds", self._agent, item)
        self.add("holdsany", self._agent)
        self._contents[receptacle].remove(item)
        if item in self.objects_here():
            self._objects_at[self.location].remove(item)
        self._taken_from.add((item, receptacle))
        self.held = item

    def put(self, item: str, receptacle: str) -> None:
        self.add("inreceptacle", item, receptacle)
        self.add("objectatlocation", item, self.location)
        self.remove("holds", self._agent, item)
        self.remove("holdsany", self._agent)
        # A few published games list an object twice, so the item may still be where it is put.
        for index in (
            self._contents.setdefault(receptacle, []),
            self._objects_at.setdefault(self.location, []),
        ):
            if item not in index:
                insort(index, item)
        self._taken_from.discard((item, receptacle))
        self.held = ""
