"""Reads the two parts of an ALFWorld PDDL problem that a game needs: its initial facts and its goal.

Two shapes cover the goals of the six task types: one or two objects of a type in one receptacle of a type, each with
the wanted property (pick, clean, heat, cool, pick2), and an object held beside a lamp that has been switched on (look).
Anything else is refused.

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


PROPERTIES = frozenset({"isclean", "ishot", "iscool", "issliced"})
ABILITIES = frozenset({"cleanable", "heatable", "coolable", "sliceable", "pickupable"})


@dataclass(frozen=True, slots=True)
class Placed:
    """`count` different objects of `object_type`, each with all `properties`, in one `receptacle_type`."""

    object_type: str
    receptacle_type: str
    properties: frozenset[str]
    abilities: frozenset[str]
    count: int


@dataclass(frozen=True, slots=True)
class HeldInLight:
    """An object of `object_type` in hand, at the place of a `lamp_type` that has been toggled."""

    object_type: str
    lamp_type: str


Goal = Placed | HeldInLight


def read_goal(tree: Tree) -> Goal:
    """Recognise a goal expression; raises EnvironmentFailure for one of another shape."""
    blocks = list(_conjuncts(tree))
    try:
        if len(blocks) == 2:
            return _held_in_light(blocks)
        if len(blocks) == 1:
            return _placed(list(_literals(blocks[0])))
    except (KeyError, ValueError, TypeError):
        pass
    raise EnvironmentFailure(f"the native engine does not know this kind of goal: {_show(tree)}")


def _conjuncts(tree: Tree) -> Iterator[Tree]:
    if isinstance(tree, list) and tree and tree[0] == "and":
        for part in tree[1:]:
            yield from _conjuncts(part)
    else:
        yield tree


def _literals(tree: Tree) -> Iterator[tuple[str, ...]]:
    """All literals below nested `exists` and `and`; an inequality comes out as ("distinct", x, y)."""
    if not isinstance(tree, list) or not tree:
        raise ValueError(tree)
    head = tree[0]
    if head == "exists":
        yield from _literals(tree[2])
    elif head == "and":
        for part in tree[1:]:
            yield from _literals(part)
    elif head == "not":
        inner = tree[1]
        if not isinstance(inner, list) or inner[0] != "=":
            raise ValueError(tree)
        yield ("distinct", *_atoms(inner[1:]))
    else:
        yield _atoms(tree)


def _atoms(parts: list[Tree]) -> tuple[str, ...]:
    atoms = tuple(part for part in parts if isinstance(part, str))
    if len(atoms) != len(parts):
        raise ValueError(parts)
    return atoms


def _placed(literals: list[tuple[str, ...]]) -> Placed:
    types = {args[0]: args[1] for name, *args in literals if name == "objecttype"}
    recepts = {args[0]: args[1] for name, *args in literals if name == "receptacletype"}
    placed = {args[0]: args[1] for name, *args in literals if name == "inreceptacle"}
    marks = {var: frozenset(lit[0] for lit in literals if len(lit) == 2 and lit[1] == var) for var in placed}
    distinct = sum(lit[0] == "distinct" for lit in literals)
    known = {"objecttype", "receptacletype", "inreceptacle", "distinct"} | PROPERTIES | ABILITIES
    (receptacle,) = set(placed.values())
    (object_type,) = {types[var] for var in placed}
    (wanted,) = set(marks.values())
    if set(recepts) != {receptacle} or set(types) != set(placed) or not {lit[0] for lit in literals} <= known:
        raise ValueError(literals)
    if len(placed) not in (1, 2) or distinct != len(placed) - 1:
        raise ValueError(literals)
    return Placed(object_type, recepts[receptacle], wanted & PROPERTIES, wanted & ABILITIES, len(placed))


def _held_in_light(blocks: list[Tree]) -> HeldInLight:
    first, second = (list(_literals(block)) for block in blocks)
    lamp, held = (first, second) if len(first) > len(second) else (second, first)
    if {lit[0] for lit in held} != {"objecttype", "holds"}:
        raise ValueError(held)
    expected = {"objecttype", "toggleable", "istoggled", "receptacleatlocation", "atlocation", "inreceptacle"}
    if {lit[0] for lit in lamp} != expected or len(lamp) != len(expected):
        raise ValueError(lamp)
    return HeldInLight(_type_of(held), _type_of(lamp))


def _type_of(literals: list[tuple[str, ...]]) -> str:
    (only,) = [lit[2] for lit in literals if lit[0] == "objecttype"]
    return only


def _show(tree: Tree) -> str:
    return tree if isinstance(tree, str) else "(" + " ".join(_show(part) for part in tree) + ")"
