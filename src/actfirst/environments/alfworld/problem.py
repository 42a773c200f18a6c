"""Reads the two parts of an ALFWorld PDDL problem that a game needs: its initial facts and its goal.

This is a small, fast reader of one known shape of file, not a PDDL parser: the objects section is skipped,
because every entity that can matter occurs in a fact. Names are lower-cased, as the planner does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from actfirst.errors import EnvironmentFailure

Fact = tuple[str, ...]
"""A positive fact: its predicate and its arguments, all lower case."""

Tree = str | list["Tree"]
"""A parsed expression: an atom, or a list of expressions."""

ARITY: Mapping[str, int] = {
    "atlocation": 2, "receptacleatlocation": 2, "objectatlocation": 2, "inreceptacle": 2,
    "inreceptacleobject": 2, "wasinreceptacle": 2, "receptacletype": 2, "cancontain": 2, "objecttype": 2,
    "holds": 2, "openable": 1, "opened": 1, "isreceptacleobject": 1, "isreceptacleobjectfull": 1, "checked": 1,
    "examined": 1, "holdsany": 1, "holdsanyreceptacleobject": 1, "full": 1, "isclean": 1, "cleanable": 1,
    "ishot": 1, "heatable": 1, "iscool": 1, "coolable": 1, "pickupable": 1, "moveable": 1, "toggleable": 1,
    "ison": 1, "istoggled": 1, "sliceable": 1, "issliced": 1,
}  # fmt: skip

_COMMENT = re.compile(r";[^\n]*")
_INNERMOST = re.compile(r"\(([^()]*)\)")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_COSTS = frozenset({"total-cost", "distance"})


@dataclass(frozen=True, slots=True)
class Problem:
    """What a problem file says: the facts that hold at the start, in file order, and the goal expression."""

    facts: tuple[Fact, ...]
    goal: Tree


def parse_problem(text: str) -> Problem:
    """Read a problem; raises EnvironmentFailure where it is not one that this engine can play."""
    if ";" in text:
        text = _COMMENT.sub("", text)
    text = text.lower()
    start, goal = text.find("(:init"), text.find("(:goal")
    if start < 0 or goal < start:
        raise EnvironmentFailure("the game's PDDL problem has no (:init ...) followed by a (:goal ...)")
    facts = tuple(_facts(text[start:goal]))
    tree = parse_tree(text[goal:])
    if not isinstance(tree, list) or len(tree) != 2:
        raise EnvironmentFailure("the game's PDDL goal is not a single expression")
    return Problem(facts, tree[1])


def _facts(init: str) -> Iterator[Fact]:
    for inner in _INNERMOST.findall(init):
        fact = tuple(inner.split())
        if not fact or fact[0] in _COSTS:
            continue
        if ARITY.get(fact[0]) != len(fact) - 1:
            raise EnvironmentFailure(
                f"the game states a fact that the native engine does not know: ({inner.strip()})"
            )
        yield fact


def parse_tree(text: str) -> Tree:
    """The first complete parenthesised expression of the text."""
    stack: list[list[Tree]] = []
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            if not stack:
                return done
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    raise EnvironmentFailure("unbalanced parentheses in the game's PDDL")
