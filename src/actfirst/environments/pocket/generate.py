"""Makes pocket houses: the game of (seed, size, split, index), the same on every run and machine.

A game is an ALFWorld game file in every respect (TextWorld plays it too). The target objects never lie in a
receptacle of the destination's type, and at least three receptacles could hold them: they must be looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from random import Random

from actfirst.environments.alfworld.game import Game, GameFile, parse_game
from actfirst.environments.alfworld.solver import solve
from actfirst.environments.pocket.catalogue import (
    APPLIANCES,
    LAMP,
    OBJECTS,
    OPENABLE,
    ROOMS,
    ROOMS_FOR,
    ObjectKind,
)
from actfirst.environments.pocket.layout import Layout, Receptacle, Size, identifier, layouts
from actfirst.environments.pocket.problem import House, Thing, problem_text
from actfirst.errors import ConfigError, EnvironmentFailure

REVISION = 2
"""Counts changes of the generator after which a seed gives other games."""

KINDS = ("pick", "look", "clean", "heat", "cool", "pick2")
"""Task kinds in the order in which indices cycle through them."""

SENTENCES = {
    "pick": ("put a {item} in {place}.", "put some {item} on {place}."),
    "look": ("look at {item} under the {place}.", "examine the {item} with the {place}."),
    "clean": ("put a clean {item} in {place}.", "clean some {item} and put it in {place}."),
    "heat": ("put a hot {item} in {place}.", "heat some {item} and put it in {place}."),
    "cool": ("put a cool {item} in {place}.", "cool some {item} and put it in {place}."),
    "pick2": ("put two {item} in {place}.", "find two {item} and put them in {place}."),
}
"""The task sentences of ALFWorld."""

PLAN_LENGTH = (4, 15)
_CROWDED = 4
"""No receptacle holds more objects than this: observations stay short."""


@dataclass(frozen=True, slots=True)
class _Aim:
    """What a task is about: the kind of object, and the type of the receptacle (or lamp) it is for."""

    item: ObjectKind
    place: str


def check_size(size: Size) -> None:
    """Raise ConfigError where houses of this size would hold less than was asked for."""
    most = {
        "receptacles": min(len(room.fixed) + sum(count for _, count in room.optional) for room in ROOMS),
        "objects": _CROWDED * size.receptacles[0],
    }
    for key, asked in (("receptacles", size.receptacles), ("objects", size.objects)):
        if asked[1] > most[key]:
            why = f" ({_CROWDED} for each of the fewest receptacles)" if key == "objects" else ""
            raise ConfigError(f"environment.{key} = {list(asked)}: houses hold at most {most[key]} {key}{why}")


def kind_of(index: int) -> str:
    return KINDS[index % len(KINDS)]


def make_file(seed: int, size: Size, split: str, index: int) -> GameFile:
    """The game file of a task, with a solution as its walkthrough."""
    kind = kind_of(index)
    rng = Random(f"pocket game {REVISION} {seed} {size} {split} {index}")
    for _ in range(200):
        house = _draw_house(rng, seed, size, split, kind)
        if house is None:
            continue
        file = GameFile(_domain(), _grammar(house.task), problem_text(house, f"pocket_{split}_{index:06d}"))
        plan = solve(parse_game(file))
        if PLAN_LENGTH[0] <= len(plan) <= PLAN_LENGTH[1]:
            return replace(file, walkthrough=tuple(plan))
    raise EnvironmentFailure(
        f"no {kind} task fits into pocket houses of size {size}; allow more receptacles or objects"
    )


@lru_cache(maxsize=1024)
def make_game(seed: int, size: Size, split: str, index: int) -> Game:
    """The same game, ready to be played; recent ones are kept."""
    return parse_game(make_file(seed, size, split, index))


def _draw_house(rng: Random, seed: int, size: Size, split: str, kind: str) -> House | None:
    known, unseen = layouts(seed, size, rng.choice(ROOMS_FOR[kind]))
    layout = rng.choice(unseen if split == "unseen" else known)
    aims = _aims(layout, kind)
    if not aims:
        return None
    aim = rng.choice(aims)
    things = _furnish(rng, layout, aim, kind, rng.randint(*size.objects))
    if things is None:
        return None
    sentence = rng.choice(SENTENCES[kind]).format(item=aim.item.name.lower(), place=aim.place.lower())
    return House(layout, tuple(things), sentence, kind, aim.item.name, aim.place)


def _aims(layout: Layout, kind: str) -> list[_Aim]:
    """All objects and destinations for which a task of this kind can be set here, and makes one search."""
    room = next(room for room in ROOMS if room.name == layout.room)
    types = set(layout.types())
    if kind in APPLIANCES and APPLIANCES[kind] not in types:
        return []
    found: list[_Aim] = []
    for name in room.objects:
        item = OBJECTS[name]
        if not item.suits(kind):
            continue
        if kind == "look":
            places = [LAMP] if types & set(OBJECTS[LAMP].places) else []
        else:
            places = sorted(types & set(item.places) - {APPLIANCES.get(kind, "")})
        for place in places:
            if len(_hideouts(layout, item, place)) >= 3:
                found.append(_Aim(item, place))
    return found


def _hideouts(layout: Layout, item: ObjectKind, destination: str) -> list[Receptacle]:
    return [r for r in layout.receptacles if r.type in item.places and r.type != destination]


def _furnish(rng: Random, layout: Layout, aim: _Aim, kind: str, count: int) -> list[Thing] | None:
    """Targets first, hidden behind a door half of the time where there is one; then other objects."""
    things: list[Thing] = []
    load: dict[str, int] = {}

    def add(name: str, places: Sequence[Receptacle]) -> bool:
        free = [place for place in places if load.get(place.id, 0) < _CROWDED]
        if not free:
            return False
        place = rng.choice(free)
        load[place.id] = load.get(place.id, 0) + 1
        things.append(Thing(identifier(rng, name), name, place.id, place.location))
        return True

    for _ in range(2 if kind == "pick2" else 1):
        hideouts = _hideouts(layout, aim.item, aim.place)
        closed = [place for place in hideouts if place.type in OPENABLE]
        if not add(aim.item.name, closed if closed and rng.random() < 0.5 else hideouts):
            return None
    if kind == "look" and not add(LAMP, [r for r in layout.receptacles if r.type in OBJECTS[LAMP].places]):
        return None
    room = next(room for room in ROOMS if room.name == layout.room)
    others = [name for name in room.objects if name != aim.item.name]
    for _ in range(100):
        if len(things) >= count:
            break
        name = rng.choice(others)
        add(name, [r for r in layout.receptacles if r.type in OBJECTS[name].places])
    return things if len(things) >= count and len({thing.id for thing in things}) == len(things) else None


@lru_cache(maxsize=1)
def _domain() -> str:
    return files(__package__).joinpath("house.pddl").read_text(encoding="utf-8")


def _grammar(task: str) -> str:
    return _grammar_text().replace("UNKNOWN GOAL.", task)


@lru_cache(maxsize=1)
def _grammar_text() -> str:
    return files(__package__).joinpath("house.twl2").read_text(encoding="utf-8")
