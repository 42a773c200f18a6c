"""What pocket houses are furnished with: four rooms, their receptacles, and the objects found in them.

The words are ALFWorld's. The tables are a choice of ours: few enough kinds that a tiny model can learn them
all, and for every task kind at least one room in which it can be set.
"""

from __future__ import annotations

from dataclasses import dataclass

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
"""Receptacles that are closed at the start."""

APPLIANCES = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
"""The receptacle that a task of each of these kinds needs."""

LAMP = "DeskLamp"

RECEPTACLE_TYPES = (
    "Bed", "Cabinet", "CoffeeTable", "CounterTop", "Desk", "DiningTable", "Drawer", "Fridge", "GarbageCan",
    "Microwave", "Safe", "Shelf", "SideTable", "SinkBasin", "Sofa", "Toilet",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object: where it may lie, and what can be done with it (PDDL predicates)."""

    name: str
    places: tuple[str, ...]
    abilities: frozenset[str]

    def suits(self, kind: str) -> bool:
        """Whether a task of this kind can be about such an object."""
        wanted = {"clean": _CLEAN, "heat": _HEAT, "cool": _COOL}
        return self.name != LAMP and (kind not in wanted or wanted[kind] in self.abilities)


@dataclass(frozen=True, slots=True)
class Room:
    """A kind of room: receptacles that are always there, those that may be (with their highest number)."""

    name: str
    fixed: tuple[str, ...]
    optional: tuple[tuple[str, int], ...]
    objects: tuple[str, ...]


_TABLES = ("CounterTop", "DiningTable", "Shelf")
_FOOD = (*_TABLES, "Fridge", "GarbageCan", "Microwave")
_CUTLERY = ("CounterTop", "DiningTable", "Drawer", "SinkBasin")
_SURFACES = ("Desk", "SideTable", "Shelf", "CoffeeTable", "DiningTable")
_NIGHT = ("Desk", "SideTable", "Shelf")
_SEATS = ("Bed", "Sofa")
_SMALL = ("Drawer", "Cabinet", "Safe")
_WASH = ("CounterTop", "Toilet", "Shelf", "Cabinet", "Drawer")

_CLEAN, _COOL, _HEAT, _SLICE = "cleanable", "coolable", "heatable", "sliceable"
_VESSEL = "isReceptacleObject"

OBJECTS: dict[str, ObjectKind] = {
    name: ObjectKind(name, places, frozenset(abilities))
    for name, places, *abilities in (
        # food and dishes
        ("Apple", (*_FOOD, "SinkBasin"), _CLEAN, _HEAT, _COOL, _SLICE),
        ("Tomato", (*_FOOD, "SinkBasin"), _CLEAN, _HEAT, _COOL, _SLICE),
        ("Bread", _FOOD, _HEAT, _COOL, _SLICE),
        ("Egg", _FOOD, _CLEAN, _HEAT, _COOL),
        ("Mug", (*_TABLES, "Cabinet", "Desk", "SinkBasin", "SideTable"), _CLEAN, _HEAT, _COOL, _VESSEL),
        ("Cup", (*_TABLES, "Cabinet", "Fridge", "SinkBasin"), _CLEAN, _HEAT, _COOL, _VESSEL),
        ("Plate", (*_TABLES, "Cabinet", "SinkBasin"), _CLEAN, _HEAT, _COOL, _VESSEL),
        ("Fork", _CUTLERY, _CLEAN),
        ("Knife", _CUTLERY, _CLEAN),
        ("SaltShaker", (*_TABLES, "Cabinet", "Drawer")),
        # living and sleeping
        (LAMP, (*_NIGHT, "CoffeeTable")),
        ("AlarmClock", _NIGHT),
        ("Book", (*_SURFACES, *_SEATS, "Drawer")),
        ("CD", (*_NIGHT, "GarbageCan", *_SMALL)),
        ("CellPhone", (*_SURFACES, *_SEATS, *_SMALL)),
        ("KeyChain", (*_SURFACES, "Sofa", *_SMALL)),
        ("Newspaper", ("CoffeeTable", "DiningTable", "SideTable", "Sofa", "Drawer", "GarbageCan")),
        ("Pen", (*_NIGHT, "Drawer", "GarbageCan")),
        ("RemoteControl", (*_SURFACES, "Sofa", "Drawer")),
        ("Vase", (*_SURFACES, "Cabinet", "Safe")),
        # washing
        ("Candle", _WASH),
        ("Cloth", (*_WASH, "SinkBasin"), _CLEAN),
        ("SoapBar", (*_WASH, "SinkBasin", "GarbageCan"), _CLEAN),
        ("SoapBottle", (*_WASH, "GarbageCan")),
        ("ToiletPaper", (*_WASH, "GarbageCan")),
    )
}

ROOMS: tuple[Room, ...] = (
    Room(
        name="kitchen",
        fixed=("CounterTop", "Fridge", "Microwave", "SinkBasin"),
        optional=(
            ("Cabinet", 3), ("CounterTop", 1), ("DiningTable", 2), ("Drawer", 2), ("GarbageCan", 1), ("Shelf", 2),
        ),
        objects=("Apple", "Bread", "Cup", "Egg", "Fork", "Knife", "Mug", "Plate", "SaltShaker", "Tomato"),
    ),
    Room(
        name="bedroom",
        fixed=("Bed", "Desk"),
        optional=(
            ("Desk", 1), ("Drawer", 3), ("GarbageCan", 1), ("Safe", 1), ("Shelf", 2), ("SideTable", 2),
        ),
        objects=("AlarmClock", "Book", "CD", "CellPhone", "KeyChain", "Mug", "Pen", "Vase"),
    ),
    Room(
        name="livingroom",
        fixed=("CoffeeTable", "Sofa"),
        optional=(
            ("Cabinet", 2), ("DiningTable", 1), ("Drawer", 2), ("GarbageCan", 1), ("Safe", 1), ("Shelf", 2),
            ("SideTable", 2),
        ),
        objects=("Book", "CellPhone", "KeyChain", "Newspaper", "RemoteControl", "Vase"),
    ),
    Room(
        name="bathroom",
        fixed=("CounterTop", "SinkBasin", "Toilet"),
        optional=(("Cabinet", 3), ("CounterTop", 1), ("Drawer", 3), ("GarbageCan", 1), ("Shelf", 2)),
        objects=("Candle", "Cloth", "SoapBar", "SoapBottle", "ToiletPaper"),
    ),
)  # fmt: skip

ROOMS_FOR: dict[str, tuple[str, ...]] = {
    "pick": ("kitchen", "bedroom", "livingroom", "bathroom"),
    "look": ("bedroom", "livingroom"),
    "clean": ("kitchen", "bathroom"),
    "heat": ("kitchen",),
    "cool": ("kitchen",),
    "pick2": ("kitchen", "bedroom", "livingroom", "bathroom"),
}
"""In which rooms a task of a kind can be set."""
