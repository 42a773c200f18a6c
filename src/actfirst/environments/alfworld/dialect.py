"""Which PDDL domain and text grammar a game file was written with, and refusal of those that are not known.

The native engine has the rules and the wording of ALFWorld built in. A game file carries both as text, so a
file made with other rules or other words would silently be played wrongly. Each file is therefore compared by
digest with the versions that have been verified against TextWorld.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from actfirst.errors import EnvironmentFailure

_SINKS = frozenset({"sinktype", "sinkbasintype"})
_BASINS = frozenset({"sinkbasintype"})

DOMAINS: dict[str, frozenset[str]] = {
    "e733dcfa5154f9d5": _SINKS,  # the published games
    "915e118f4f32b4d8": _BASINS,  # alfred.pddl of the package alfworld 0.4.2
    "45f305f1243766ff": _BASINS,  # pocket houses
}
"""Digest of a known domain -> the receptacle types that clean."""

GRAMMARS = frozenset(
    {
        "af191038ff7d6ca1",  # the published games
        "21df8efa6d153779",  # alfred.twl2 of the package alfworld 0.4.2
        "5231fbf3e8038e28",  # pocket houses
    }
)
"""Digests of known grammars without their task sentence. They differ in form, not in what is said."""

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_TASK = re.compile(r'"Your task is to: ([^"\\#{}\[\]|\n]*)"')


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a game's rules and grammar say of their own: what cleans, and the task sentence."""

    washers: frozenset[str]
    task: str


def read_dialect(domain: str, grammar: str) -> Dialect:
    """The dialect of a game; raises EnvironmentFailure for an unknown version."""
    match = _TASK.search(grammar)
    if match is None:
        raise EnvironmentFailure('the game\'s grammar has no sentence "Your task is to: ..."')
    rest = grammar[: match.start(1)] + grammar[match.end(1) :]
    washers = DOMAINS.get(domain_digest(domain))
    if washers is None or grammar_digest(rest) not in GRAMMARS:
        part = "rules (pddl_domain)" if washers is None else "wording (grammar)"
        raise EnvironmentFailure(
            f"the game's {part} are not a version that the native engine knows; "
            'play it with the "textworld" engine, or download the games of alfworld 0.4.2 again'
        )
    return Dialect(washers, match.group(1))


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
