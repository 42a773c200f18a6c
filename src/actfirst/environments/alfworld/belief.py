"""What an agent can know of an ALFWorld house from the texts it has read, and nothing else.

A belief is rebuilt from the whole history each turn, so it holds after any history, also one of another policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from actfirst.records import TurnContext

_CLOSED = re.compile(r"The ([a-z]+ \d+) is closed\.")
_OPEN = re.compile(r"The ([a-z]+ \d+) is open\. In it, you see ([^.]*)\.")
_ON = re.compile(r"On the ([a-z]+ \d+), you see ([^.]*)\.")
_ARRIVE = re.compile(r"You arrive at ([a-z]+ \d+)\.")
_CLOSE = re.compile(r"You close the ([a-z]+ \d+)\.")
_TAKE = re.compile(r"You pick up the ([a-z]+ \d+) from the ([a-z]+ \d+)\.")
_MOVE = re.compile(r"You move the ([a-z]+ \d+) to the ([a-z]+ \d+)\.")
_TREAT = re.compile(r"You (clean|heat|cool) the ([a-z]+ \d+) using the [a-z]+ \d+\.")
_USE = re.compile(r"You turn on the ([a-z]+ \d+)\.")
_CARRY = re.compile(r"You are carrying: a ([a-z]+ \d+)\.")
_EMPTY = "You are not carrying anything."


def kind_of(name: str) -> str:
    """ "cabinet 3" -> "cabinet"."""
    return name.rpartition(" ")[0]


@dataclass(slots=True)
class Belief:
    """Memory of one episode. `places` and `here` are in the order of the admissible commands."""

    places: tuple[str, ...]
    here: tuple[str, ...]
    held: str = ""
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    treated: dict[str, str] = field(default_factory=dict)
    cleaned: set[str] = field(default_factory=set)
    origin: dict[str, str] = field(default_factory=dict)
    visits: list[str] = field(default_factory=list)
    visits_at_take: int = 0

    def items(self, kind: str) -> Iterator[tuple[str, str]]:
        """Known objects of a kind that are not in hand, with their places: those within reach first."""
        for place in (*self.here, *(place for place in self.places if place not in self.here)):
            for item in sorted(self.contents.get(place, ())):
                if kind_of(item) == kind:
                    yield item, place

    def of_kind(self, kind: str) -> list[str]:
        return [place for place in self.places if kind_of(place) == kind]

    def is_treated(self, item: str, kind: str) -> bool:
        """Whether the item has got what a task of this kind asks for."""
        if kind == "clean":
            return item in self.cleaned
        return kind not in ("heat", "cool") or self.treated.get(item) == kind


def recall(context: TurnContext) -> Belief:
    """The belief after everything that the context shows."""
    admissible = context.observation.admissible
    reachable = [action.removeprefix("go to ") for action in admissible if action.startswith("go to ")]
    near = [action.removeprefix("examine ") for action in admissible if action.startswith("examine ")]
    belief = Belief((), ())
    for text in _texts(context):
        _read(belief, text)
    here = tuple(name for name in near if name != belief.held)
    belief.here = here
    belief.places = tuple(sorted({*reachable, *here}))
    return belief


def _texts(context: TurnContext) -> Sequence[str]:
    return [pair.observation for pair in context.history] + [context.observation.text]


def _read(belief: Belief, text: str) -> None:
    if match := _ARRIVE.search(text):
        belief.visits.append(match.group(1))
    for match in _CLOSED.finditer(text):
        belief.closed.add(match.group(1))
    for pattern in (_OPEN, _ON):
        for match in pattern.finditer(text):
            belief.closed.discard(match.group(1))
            belief.contents[match.group(1)] = _listed(match.group(2))
    if match := _CLOSE.search(text):
        belief.closed.add(match.group(1))
    if match := _TAKE.search(text):
        _take(belief, match.group(1), match.group(2))
    if match := _MOVE.search(text):
        belief.held = ""
        belief.contents.setdefault(match.group(2), []).append(match.group(1))
    if match := _TREAT.search(text):
        verb, item = match.groups()
        if verb == "clean":
            belief.cleaned.add(item)
        else:
            belief.treated[item] = verb
    if match := _CARRY.search(text):
        belief.held = match.group(1)
    elif _EMPTY in text:
        belief.held = ""


def _take(belief: Belief, item: str, place: str) -> None:
    belief.held = item
    belief.origin[item] = place
    belief.visits_at_take = len(belief.visits)
    if item in belief.contents.get(place, ()):
        belief.contents[place].remove(item)


def _listed(text: str) -> list[str]:
    if text == "nothing":
        return []
    return [part.removeprefix("and ").removeprefix("a ") for part in text.split(", ")]
