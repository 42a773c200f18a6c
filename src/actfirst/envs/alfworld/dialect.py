"""Which PDDL domain and text grammar a game file was written with, and refusal of those that are not known.

The native engine has the rules and the wording of ALFWorld built in. A game file carries both as text, so a
file made with other rules or other words would silently be played wrongly. Each file is therefore compared by
digest with the versions that have been verified against TextWorld; the fields of `Dialect` are what differs
between those.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from actfirst.errors import EnvironmentFailure

HELP_LINES = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

_SINKS = frozenset({"sinktype", "sinkbasintype"})
_BASINS = frozenset({"sinkbasintype"})

DOMAINS: dict[str, frozenset[str]] = {
    "e733dcfa5154f9d5": _SINKS,  # the published games
    "915e118f4f32b4d8": _BASINS,  # alfred.pddl of the package alfworld 0.4.2
    "45f305f1243766ff": _BASINS,  # pocket houses
}
"""Digest of a known domain -> the receptacle types that clean."""

GRAMMARS: dict[str, str] = {
    "af191038ff7d6ca1": HELP_LINES,  # the published games
    "21df8efa6d153779": HELP_LINES,  # alfred.twl2 of the package alfworld 0.4.2
    "5231fbf3e8038e28": HELP_LINES,  # pocket houses
}
"""Digest of a known grammar (without its task sentence) -> what `help` answers."""

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_TASK = re.compile(r'"Your task is to: ([^"\\#{}\[\]|\n]*)"')


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences between known versions of domain and grammar."""

    washers: frozenset[str]
    help_text: str


def read_dialect(domain: str, grammar: str) -> tuple[Dialect, str]:
    """The dialect of a game and its task sentence; raises EnvironmentFailure for an unknown version."""
    match = _TASK.search(grammar)
    if match is None:
        raise EnvironmentFailure('the game\'s grammar has no sentence "Your task is to: ..."')
    rest = grammar[: match.start(1)] + grammar[match.end(1) :]
    washers = DOMAINS.get(domain_digest(domain))
    help_text = GRAMMARS.get(grammar_digest(rest))
    if washers is None or help_text is None:
        part = "rules (pddl_domain)" if washers is None else "wording (grammar)"
        raise EnvironmentFailure(
            f"the game's {part} are not a version that the native engine knows; "
            'play it with the "textworld" engine, or download the games of alfworld 0.4.2 again'
        )
    return Dialect(washers, help_text), match.group(1)


@lru_cache(maxsize=16)
def domain_digest(domain: str) -> str:
    """A digest that ignores comments, case and layout."""
    return _digest(" ".join(_TOKEN.findall(_COMMENT.sub("", domain).lower())))


@lru_cache(maxsize=16)
def grammar_digest(grammar_without_task: str) -> str:
    """A digest of the exact text (spaces are part of the wording), line ends apart."""
    return _digest(grammar_without_task.replace("\r\n", "\n").strip())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
