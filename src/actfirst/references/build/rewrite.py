"""Other wordings for actions that are not listed where they are taken: one rewriter per benchmark.

Demonstrations were recorded with other versions of a simulator, or by hand. A rewriter proposes; only a proposal that
is valid where it is needed is ever submitted (`replay.try_out`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actfirst.environments.normalize import normalize
from actfirst.records import Observation
from actfirst.references.build.replay import Rewrite

_PUT = re.compile(r"put (.+) (?:in/on|in|on|into|onto) (.+)")
_CLICK = re.compile(r"(click|search)\s*\[\s*(.*?)\s*\]", re.DOTALL | re.IGNORECASE)


def alfworld(action: str, seen: Observation) -> Iterator[str]:
    """`put X in/on Y` of older game files is `move X to Y` today."""
    bare = normalize(action).rstrip(".")
    yield bare
    if put := _PUT.fullmatch(bare):
        yield f"move {put.group(1)} to {put.group(2)}"


def webshop(action: str, seen: Observation) -> Iterator[str]:
    """Spaces and capitals around the brackets; words after them."""
    if call := _CLICK.search(action):
        verb, argument = call.group(1).lower(), call.group(2)
        yield f"{verb}[{argument.lower() if verb == 'click' else argument}]"


def nothing(action: str, seen: Observation) -> Iterator[str]:
    """No other wording is known."""
    yield from ()


REWRITES: dict[str, Rewrite] = {"alfworld": alfworld, "webshop": webshop}
