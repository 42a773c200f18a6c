"""What pocket houses are furnished with: four rooms, their receptacles, and the objects found in them.

The words are ALFWorld's. The tables are a choice of ours: few enough kinds that a tiny model can learn them all,
and for every task kind at least one room in which it can be set.
"""

from __future__ import annotations

from dataclasses import dataclass

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
"""Receptacles that are closed at the start."""

APPLIANCES = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
"""The receptacle that a task of each of these kinds needs."""

LAMP = "DeskLamp"

RECEPTACLE_TYPES = (
    "ArmChair", "BathtubBasin", "Bed", "Cabinet", "CoffeeTable", "CounterTop", "Desk", "DiningTable", "Drawer",
    "Dresser", "Fridge", "GarbageCan", "Microwave", "Safe", "Shelf", "SideTable", "SinkBasin", "Sofa",
    "StoveBurner", "Toilet", "TVStand",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object: where it may lie, and which properties it may be given."""

    name: str
    places: tuple[str, ...]
    cleanable: bool = False
    heatable: bool = False
    coolable: bool = False
    sliceable: bool = False
    vessel: bool = False

    def suits(self, kind: str) -> bool:
        """Whether a task of this kind can be about such an object."""
        wanted = {"clean": self.cleanable, "heat": self.heatable, "cool": self.coolable}
        return self.name != LAMP and wanted.get(kind, True)


@dataclass(frozen=True, slots=True)
class Room:
    """A kind of room: receptacles that are always there, those that may be (with their highest number)."""

    name: str
    fixed: tuple[str, ...]
    optional: tuple[tuple[str, int], ...]
    objects: tuple[str, ...]


_TABLES = ("CounterTop", "DiningTable", "Shelf")
_SURFACES = ("Desk", "Dresser", "SideTable", "Shelf", "CoffeeTable", "DiningTable", "TVStand")
_SEATS = ("ArmChair", "Bed", "Sofa")
_SMALL = ("Drawer", "Cabinet", "Safe")

OBJECTS: dict[str, ObjectKind] = {
    kind.name: kind
    for kind in (
        # food and dishes
        ObjectKind("Apple", (*_TABLES, "Fridge", "GarbageCan", "SinkBasin", "Microwave"), True, True, True, True),
        ObjectKind("Tomato", (*_TABLES, "Fridge", "GarbageCan", "SinkBasin", "Microwave"), True, True, True, True),
        ObjectKind("Potato", (*_TABLES, "Fridge", "GarbageCan", "SinkBasin", "Microwave"), True, True, True, True),
        ObjectKind("Lettuce", (*_TABLES, "Fridge", "SinkBasin"), True, False, True, True),
        ObjectKind("Bread", (*_TABLES, "Fridge", "Microwave", "GarbageCan"), False, True, True, True),
        ObjectKind("Egg", (*_TABLES, "Fridge", "Microwave", "GarbageCan"), True, True, True),
        ObjectKind("Mug", (*_TABLES, "Cabinet", "Desk", "SinkBasin", "SideTable"), True, True, True, vessel=True),
        ObjectKind("Cup", (*_TABLES, "Cabinet", "Fridge", "SinkBasin"), True, True, True, vessel=True),
        ObjectKind("Plate", (*_TABLES, "Cabinet", "SinkBasin"), True, True, True, vessel=True),
        ObjectKind("Bowl", (*_TABLES, "Cabinet", "Desk", "Dresser"), True, False, True, vessel=True),
        ObjectKind("Pan", (*_TABLES, "Cabinet", "StoveBurner"), True, False, True, vessel=True),
        ObjectKind("Pot", (*_TABLES, "Cabinet", "StoveBurner", "Fridge"), True, False, True, vessel=True),
        ObjectKind("Fork", ("CounterTop", "DiningTable", "Drawer", "SinkBasin"), True),
        ObjectKind("Spoon", ("CounterTop", "DiningTable", "Drawer", "SinkBasin"), True),
        ObjectKind("Knife", ("CounterTop", "DiningTable", "Drawer", "SinkBasin"), True),
        ObjectKind("Spatula", ("CounterTop", "DiningTable", "Drawer", "SinkBasin"), True),
        ObjectKind("SaltShaker", (*_TABLES, "Cabinet", "Drawer")),
        ObjectKind("PepperShaker", (*_TABLES, "Cabinet", "Drawer")),
        # living and sleeping
        ObjectKind(LAMP, ("Desk", "Dresser", "SideTable", "Shelf", "CoffeeTable")),
        ObjectKind("AlarmClock", ("Desk", "Dresser", "SideTable", "Shelf")),
        ObjectKind("Book", (*_SURFACES, *_SEATS, "Drawer")),
        ObjectKind("CD", ("Desk", "Dresser", "SideTable", "Shelf", "GarbageCan", *_SMALL)),
        ObjectKind("CellPhone", (*_SURFACES, *_SEATS, *_SMALL)),
        ObjectKind("CreditCard", (*_SURFACES, "ArmChair", "Sofa", *_SMALL)),
        ObjectKind("KeyChain", (*_SURFACES, "ArmChair", "Sofa", *_SMALL)),
        ObjectKind("Laptop", ("Desk", "CoffeeTable", "DiningTable", *_SEATS)),
        ObjectKind("Newspaper", ("CoffeeTable", "DiningTable", "SideTable", "ArmChair", "Sofa", "Drawer", "GarbageCan")),
        ObjectKind("Pen", ("Desk", "Dresser", "SideTable", "Shelf", "Drawer", "GarbageCan")),
        ObjectKind("Pencil", ("Desk", "Dresser", "SideTable", "Shelf", "Drawer", "GarbageCan")),
        ObjectKind("Pillow", _SEATS),
        ObjectKind("RemoteControl", (*_SURFACES, "ArmChair", "Sofa", "Drawer")),
        ObjectKind("Statue", _SURFACES),
        ObjectKind("Vase", (*_SURFACES, "Cabinet", "Safe")),
        ObjectKind("Watch", (*_SURFACES, *_SMALL)),
        # washing
        ObjectKind("Candle", ("CounterTop", "Toilet", "Shelf", "Cabinet", "Drawer", "BathtubBasin")),
        ObjectKind("Cloth", ("CounterTop", "Toilet", "Shelf", "Cabinet", "Drawer", "BathtubBasin", "SinkBasin"), True),
        ObjectKind("DishSponge", (*_TABLES, "Toilet", "Cabinet", "Drawer", "BathtubBasin", "SinkBasin"), True),
        ObjectKind("SoapBar", ("CounterTop", "Toilet", "Shelf", "Cabinet", "Drawer", "BathtubBasin", "GarbageCan"), True),
        ObjectKind("SoapBottle", (*_TABLES, "Toilet", "Cabinet", "Drawer", "GarbageCan", "BathtubBasin")),
        ObjectKind("SprayBottle", ("CounterTop", "Toilet", "Shelf", "Cabinet", "Drawer", "GarbageCan")),
        ObjectKind("TissueBox", ("CounterTop", "Toilet", "Shelf", "Cabinet", "Drawer", "GarbageCan")),
        ObjectKind("ToiletPaper", ("CounterTop", "Toilet", "Shelf", "Cabinet", "Drawer", "GarbageCan")),
    )
}  # fmt: skip

ROOMS: tuple[Room, ...] = (
    Room(
        "kitchen",
        ("CounterTop", "Fridge", "Microwave", "SinkBasin"),
        (("Cabinet", 3), ("CounterTop", 1), ("DiningTable", 2), ("Drawer", 2), ("GarbageCan", 1), ("Shelf", 2), ("StoveBurner", 1)),
        (
            "Apple", "Bowl", "Bread", "Cup", "DishSponge", "Egg", "Fork", "Knife", "Lettuce", "Mug", "Pan", "PepperShaker",
            "Plate", "Pot", "Potato", "SaltShaker", "SoapBottle", "Spatula", "Spoon", "Tomato",
        ),
    ),
    Room(
        "bedroom",
        ("Bed", "Desk"),
        (("ArmChair", 1), ("Desk", 1), ("Drawer", 3), ("Dresser", 2), ("GarbageCan", 1), ("Safe", 1), ("Shelf", 2), ("SideTable", 2)),
        (
            "AlarmClock", "Book", "Bowl", "CD", "CellPhone", "CreditCard", "KeyChain", "Laptop", "Mug", "Pen", "Pencil",
            "Pillow", "Vase", "Watch",
        ),
    ),
    Room(
        "livingroom",
        ("CoffeeTable", "Sofa"),
        (("ArmChair", 2), ("Cabinet", 2), ("DiningTable", 1), ("Drawer", 2), ("GarbageCan", 1), ("Safe", 1), ("Shelf", 2), ("SideTable", 2), ("TVStand", 1)),
        (
            "Book", "CellPhone", "CreditCard", "KeyChain", "Laptop", "Newspaper", "Pillow", "RemoteControl", "Statue",
            "Vase", "Watch",
        ),
    ),
    Room(
        "bathroom",
        ("CounterTop", "SinkBasin", "Toilet"),
        (("BathtubBasin", 1), ("Cabinet", 3), ("CounterTop", 1), ("Drawer", 3), ("GarbageCan", 1), ("Shelf", 2)),
        ("Candle", "Cloth", "DishSponge", "SoapBar", "SoapBottle", "SprayBottle", "TissueBox", "ToiletPaper"),
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
