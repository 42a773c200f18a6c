"""Writes a furnished house and its task as a PDDL problem in ALFWorld's vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from actfirst.environments.pocket.catalogue import LAMP, OBJECTS, OPENABLE, RECEPTACLE_TYPES
from actfirst.environments.pocket.layout import Layout

START = "loc_bar_0_bar_0_bar_0_bar_30"
"""The middle of the room, where nothing stands."""

_PROPERTY = {"clean": ("cleanable", "isClean"), "heat": ("heatable", "isHot"), "cool": ("coolable", "isCool")}
_KNIVES = ("Knife", "ButterKnife")


@dataclass(frozen=True, slots=True)
class Thing:
    """One object: its identifier, its kind, and the receptacle it lies in with that receptacle's location."""

    id: str
    kind: str
    place: str
    location: str


@dataclass(frozen=True, slots=True)
class House:
    """Everything that a game states: furniture, objects, and the task in words and in terms."""

    layout: Layout
    things: tuple[Thing, ...]
    task: str
    kind: str
    target: str
    destination: str


def problem_text(house: House, name: str) -> str:
    facts = "\n".join(f"    ({fact})" for fact in _facts(house))
    objects = "\n".join(f"    {entity}" for entity in _entities(house))
    return (
        f"(define (problem {name})\n  (:domain alfred)\n  (:objects\n{objects}\n  )\n"
        f"  (:init\n{facts}\n  )\n  (:goal\n    {_goal(house)}\n  )\n)\n"
    )


def _entities(house: House) -> Iterator[str]:
    yield "agent1 - agent"
    yield f"{START} - location"
    for receptacle in house.layout.receptacles:
        yield f"{receptacle.location} - location"
        yield f"{receptacle.id} - receptacle"
    for thing in house.things:
        yield f"{thing.id} - object"
    # All types are declared, whether present or not: the domain and the goal name some of them.
    for kind in RECEPTACLE_TYPES:
        yield f"{kind}Type - rtype"
    for kind in sorted({*OBJECTS, *_KNIVES}):
        yield f"{kind}Type - otype"


def _facts(house: House) -> Iterator[str]:
    yield f"atLocation agent1 {START}"
    for receptacle in house.layout.receptacles:
        yield f"receptacleType {receptacle.id} {receptacle.type}Type"
        yield f"receptacleAtLocation {receptacle.id} {receptacle.location}"
        if receptacle.type in OPENABLE:
            yield f"openable {receptacle.id}"
    kinds = sorted({thing.kind for thing in house.things})
    for place in sorted(set(house.layout.types())):
        for kind in kinds:
            if place in OBJECTS[kind].places:
                yield f"canContain {place}Type {kind}Type"
    for thing in house.things:
        yield f"objectType {thing.id} {thing.kind}Type"
        yield f"inReceptacle {thing.id} {thing.place}"
        yield f"objectAtLocation {thing.id} {thing.location}"
        yield from (f"{ability} {thing.id}" for ability in _abilities(thing.kind))


def _abilities(kind: str) -> Iterator[str]:
    yield "toggleable" if kind == LAMP else "pickupable"
    yield from sorted(OBJECTS[kind].abilities)


def _goal(house: House) -> str:
    target, destination = f"{house.target}Type", f"{house.destination}Type"
    if house.kind == "look":
        lit = (
            "(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objectType ?ot {destination}) (toggleable ?ot) (isToggled ?ot) "
            "(receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))"
        )
        return f"(and {lit} (exists (?o - object ?a - agent) (and (objectType ?o {target}) (holds ?a ?o))))"
    if house.kind == "pick2":
        second = (
            f"(exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {target}) (inReceptacle ?o2 ?r)))"
        )
        return (
            "(and (exists (?r - receptacle) (exists (?o1 - object) (and "
            f"(objectType ?o1 {target}) (receptacleType ?r {destination}) (inReceptacle ?o1 ?r) {second}))))"
        )
    wanted = "".join(f"({word} ?o) " for word in _PROPERTY.get(house.kind, ()))
    return (
        "(and (exists (?r - receptacle) (exists (?o - object) (and "
        f"{wanted}(objectType ?o {target}) (receptacleType ?r {destination}) (inReceptacle ?o ?r)))))"
    )
