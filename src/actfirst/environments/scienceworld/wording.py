"""Finds the listed command that means the same as a command that is not listed.

The simulator understands many more spellings than it lists: gold paths say `examine`, `drop` or `thermometer in
inventory`, or `substance in metal pot` for what is listed as `water`. The list names each command's objects by id, and
the simulator tells every name of an object, so a command is matched by what it is about, not by its letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from actfirst.environments.scienceworld.simulator import ListedCommand

_SYNONYMS = {
    "examine": "look at",
    "drop": "put down",
    "take": "pick up",
    "get": "pick up",
    "turn on": "activate",
    "turn off": "deactivate",
}
_VERBS = (
    "look at",
    "look in",
    "focus on",
    "pick up",
    "put down",
    "go to",
    "teleport to",
    *("open", "close", "activate", "deactivate", "eat", "flush", "mix", "read", "disconnect"),
    *("use", "move", "pour", "dunk", "connect"),
)
_BETWEEN = {"use": (" on ",), "move": (" to ",), "pour": (" in ", " into "), "dunk": (" in ", " into ")}
_BETWEEN |= {"connect": (" to ",)}
_LITTLE = {"in", "on", "to", "into", "containing"}
_MORE = re.compile(r" (?:in|on|terminal) ")


def equivalents(
    command: str, listed: Sequence[ListedCommand], names: Mapping[int, Sequence[str]]
) -> list[ListedCommand]:
    """Listed commands that may mean what `command` means, the likeliest first."""
    verb, rest = _verb_of(command.lower())
    if not verb:
        return []
    ways = list(_objects_of(verb, rest))
    found: list[tuple[int, float, ListedCommand]] = []
    for entry in listed:
        if entry.text.lower().startswith(f"{verb} "):
            exactness = max((_exactness(way, entry, names) for way in ways), default=0)
            if exactness:
                found.append((exactness, _likeness(command, entry.text), entry))
    return [entry for _, _, entry in sorted(found, key=lambda one: (-one[0], -one[1], one[2].text))]


def _verb_of(command: str) -> tuple[str, str]:
    for other, verb in _SYNONYMS.items():
        if command.startswith(f"{other} "):
            return verb, command.removeprefix(f"{other} ")
    for verb in _VERBS:
        if command.startswith(f"{verb} "):
            return verb, command.removeprefix(f"{verb} ")
    return "", command


def _objects_of(verb: str, rest: str) -> Iterator[tuple[str, ...]]:
    """Every way to read the objects of a command: `in` may join two objects or say where one is."""
    if verb not in _BETWEEN:
        yield (rest,)
    for word in _BETWEEN.get(verb, ()):
        place = rest.find(word)
        while place >= 0:
            yield rest[:place], rest[place + len(word) :]
            place = rest.find(word, place + 1)


def _exactness(phrases: tuple[str, ...], entry: ListedCommand, names: Mapping[int, Sequence[str]]) -> int:
    """How much of the phrases are names of the listed objects, in letters; 0 if a phrase names none of them."""
    if len(phrases) != len(entry.objects):
        return 0
    words = _words(entry.text)
    longest = [
        max((len(name) for name in names.get(number, ()) if _refers(phrase, name.lower(), words)), default=0)
        for phrase, number in zip(phrases, entry.objects)
    ]
    return sum(longest) if all(longest) else 0


def _refers(phrase: str, name: str, words: set[str]) -> bool:
    """Whether a phrase is the name itself, the name and where or which part of it, or its owner and the name: then the
    owner has to be among the listed command's words."""
    if phrase == name:
        return True
    if phrase.endswith(f" {name}"):
        return _words(phrase.removesuffix(name)) <= words
    return phrase.startswith(f"{name} ") and _MORE.match(phrase, len(name)) is not None


def _likeness(one: str, other: str) -> float:
    """How many of their words two commands share, in whatever order."""
    mine, theirs = _words(one), _words(other)
    return len(mine & theirs) / max(1, len(mine | theirs))


def _words(command: str) -> set[str]:
    return set(command.lower().split()) - _LITTLE
