"""One ALFWorld game: the content of a `game.tw-pddl` file, and the tables that the engine plays it from.

A `Game` is immutable and may be shared by any number of engines. Display names ("cabinet 3") come from the
identifiers exactly as ALFWorld makes them: numbered per kind, the last identifier in sorted order is number 1.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from actfirst.environments.alfworld.dialect import read_dialect
from actfirst.environments.alfworld.problem import Fact, Goal, HeldInLight, Problem, parse_problem, read_goal
from actfirst.errors import EnvironmentFailure
from actfirst.reading import read_object

_ESCAPES = (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))
_KNIVES = frozenset({"knifetype", "butterknifetype"})


@dataclass(frozen=True, slots=True)
class GameFile:
    """The fields of a `game.tw-pddl` file, as text."""

    pddl_domain: str
    grammar: str
    pddl_problem: str
    solvable: bool = True
    walkthrough: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The file's content; TextWorld and ALFWorld read it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Game:
    """A game's fixed tables. Identifiers are lower case; every sequence is in sorted order of identifiers."""

    task: str
    goal: Goal
    washers: frozenset[str]
    facts: tuple[Fact, ...]
    agent: str
    names: Mapping[str, str]
    location_of: Mapping[str, str]
    receptacles_at: Mapping[str, tuple[str, ...]]
    receptacle_type: Mapping[str, str]
    object_type: Mapping[str, str]
    openable: frozenset[str]
    can_contain: frozenset[tuple[str, str]]
    abilities: Mapping[str, frozenset[str]]
    knives: frozenset[str]
    goal_objects: frozenset[str]
    goal_receptacles: tuple[str, ...]
    lamps: tuple[str, ...]
    walkthrough: tuple[str, ...]


def parse_game(file: GameFile) -> Game:
    """Check a game's rules and wording and prepare its tables."""
    dialect = read_dialect(file.pddl_domain, file.grammar)
    problem = parse_problem(file.pddl_problem)
    by_predicate: dict[str, list[Fact]] = {}
    for fact in problem.facts:
        by_predicate.setdefault(fact[0], []).append(fact)
    location_of = _function(by_predicate.get("receptacleatlocation", []))
    receptacle_type = _function(by_predicate.get("receptacletype", []))
    object_type = _function(by_predicate.get("objecttype", []))
    _refuse_odd_agents(by_predicate)
    goal = read_goal(problem.goal)
    abilities = _abilities(by_predicate)
    lamp_type, receptacle_goal = "", ""
    needs = frozenset[str]()
    if isinstance(goal, HeldInLight):
        lamp_type = goal.lamp_type
    else:
        receptacle_goal, needs = goal.receptacle_type, goal.abilities
    return Game(
        task=dialect.task,
        goal=goal,
        washers=dialect.washers,
        facts=problem.facts,
        agent=by_predicate["atlocation"][0][1],
        names=_display_names(problem),
        location_of=location_of,
        receptacles_at=_grouped(location_of),
        receptacle_type=receptacle_type,
        object_type=object_type,
        openable=frozenset(fact[1] for fact in by_predicate.get("openable", [])),
        can_contain=frozenset((fact[1], fact[2]) for fact in by_predicate.get("cancontain", [])),
        abilities=abilities,
        knives=frozenset(o for o, kind in object_type.items() if kind in _KNIVES),
        goal_objects=frozenset(
            o
            for o, kind in object_type.items()
            if kind == goal.object_type and needs <= abilities.get(o, frozenset())
        ),
        goal_receptacles=tuple(sorted(r for r, kind in receptacle_type.items() if kind == receptacle_goal)),
        lamps=tuple(
            sorted(
                o
                for o, kind in object_type.items()
                if kind == lamp_type and "toggleable" in abilities.get(o, ())
            )
        ),
        walkthrough=file.walkthrough,
    )


def read_game_file(path: Path) -> GameFile:
    """Read a `game.tw-pddl` file; raises EnvironmentFailure with the path and the cause."""
    try:
        data = read_object(path)
        domain, grammar, problem = (data[name] for name in ("pddl_domain", "grammar", "pddl_problem"))
        walkthrough: tuple[Any, ...] = tuple(data.get("walkthrough") or ())
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentFailure(f"cannot read the game {path}: {type(error).__name__}: {error}") from error
    if not all(isinstance(text, str) for text in (domain, grammar, problem, *walkthrough)):
        raise EnvironmentFailure(f"cannot read the game {path}: what should be a text in it is something else")
    return GameFile(domain, grammar, problem, bool(data.get("solvable", True)), walkthrough)


def load_game(path: Path) -> Game:
    """Read and prepare a game; recently loaded games are kept as long as their file does not change."""
    try:
        stamp = path.stat()
    except OSError as error:
        raise EnvironmentFailure(f"cannot read the game {path}: {error}") from error
    return _load(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=128)
def _load(path: Path, mtime_ns: int, size: int) -> Game:
    try:
        return parse_game(read_game_file(path))
    except EnvironmentFailure as error:
        raise error if str(path) in str(error) else EnvironmentFailure(f"{path}: {error}") from error


def _function(facts: Sequence[Fact]) -> dict[str, str]:
    """Facts (p x y) as a sorted mapping x -> y; what two of them mean would depend on the planner's order."""
    table: dict[str, str] = {}
    for predicate, key, value in sorted(facts):
        if table.setdefault(key, value) != value:
            raise EnvironmentFailure(
                f"the game gives {key} two values of {predicate}: {table[key]} and {value}"
            )
    return table


def _grouped(location_of: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    places: dict[str, list[str]] = {}
    for receptacle, location in location_of.items():
        places.setdefault(location, []).append(receptacle)
    return {location: tuple(receptacles) for location, receptacles in places.items()}


def _abilities(by_predicate: Mapping[str, Sequence[Fact]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    kinds = ("pickupable", "cleanable", "heatable", "coolable", "sliceable", "toggleable", "isreceptacleobject")
    for kind in kinds:
        for fact in by_predicate.get(kind, ()):
            found.setdefault(fact[1], set()).add(kind)
    return {name: frozenset(kinds) for name, kinds in found.items()}


def _refuse_odd_agents(by_predicate: Mapping[str, Sequence[Fact]]) -> None:
    if len(by_predicate.get("atlocation", ())) != 1:
        raise EnvironmentFailure("the game must state exactly one (atLocation agent location)")
    if any(by_predicate.get(kind) for kind in ("holds", "holdsany")):
        raise EnvironmentFailure(
            "the game starts with an object in hand, which the native engine does not play"
        )


def _display_names(problem: Problem) -> dict[str, str]:
    """Names of all entities of the initial facts. A name without a number ends in a space, as in ALFWorld."""
    kinds: dict[str, str | None] = {}
    for identifier in sorted({argument for fact in problem.facts for argument in fact[1:]}):
        text = identifier
        for escape, sign in _ESCAPES:
            text = text.replace(escape, sign)
        kind, bar, _ = text.partition("|")
        if bar and "basin" in identifier:
            kind += "basin"
        kinds[identifier] = kind if bar else None
    left = Counter(kind for kind in kinds.values() if kind is not None)
    names: dict[str, str] = {}
    for identifier, known in kinds.items():
        if known is None:
            names[identifier] = f"{identifier} "
            continue
        names[identifier] = f"{known} {left[known]}"
        left[known] -= 1
    return names
