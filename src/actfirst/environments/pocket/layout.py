"""Layouts of pocket houses: which receptacles a room has and where they stand.

Train and seen tasks share one set of layouts; unseen tasks have others. No two have the same furniture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

from actfirst.environments.pocket.catalogue import ROOMS, Room
from actfirst.errors import EnvironmentFailure

TRAIN_LAYOUTS, UNSEEN_LAYOUTS = 16, 8
"""How many layouts each room has in the two sets."""

_BASINS = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}


@dataclass(frozen=True, slots=True)
class Size:
    """How big a house is: the bounds within which the numbers of its receptacles and objects are drawn."""

    receptacles: tuple[int, int] = (6, 9)
    objects: tuple[int, int] = (6, 10)

    def __str__(self) -> str:
        (a, b), (c, d) = self.receptacles, self.objects
        return f"r{a}-{b}o{c}-{d}"


@dataclass(frozen=True, slots=True)
class Receptacle:
    """One receptacle: its identifier (from which its display name comes), its type and its location."""

    id: str
    type: str
    location: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A furnished room without objects."""

    room: str
    receptacles: tuple[Receptacle, ...]

    def types(self) -> tuple[str, ...]:
        return tuple(sorted(receptacle.type for receptacle in self.receptacles))


@lru_cache(maxsize=64)
def layouts(seed: int, size: Size, room_name: str) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    """The training layouts and the unseen layouts of a room."""
    room = next(room for room in ROOMS if room.name == room_name)
    rng = Random(f"pocket layouts {seed} {size} {room_name}")
    made: list[Layout] = []
    known: set[tuple[str, ...]] = set()
    for _ in range(2000):
        types = _draw_types(rng, room, size)
        if types in known:
            continue
        known.add(types)
        made.append(Layout(room.name, _stand(rng, types)))
        if len(made) == TRAIN_LAYOUTS + UNSEEN_LAYOUTS:
            break
    if len(made) < 2:
        raise EnvironmentFailure(f"pocket houses of size {size} leave fewer than two different {room_name}s")
    # A size that leaves few possible rooms still keeps a third of them unseen.
    cut = min(TRAIN_LAYOUTS, max(1, len(made) * 2 // 3))
    return tuple(made[:cut]), tuple(made[cut:])


def _draw_types(rng: Random, room: Room, size: Size) -> tuple[str, ...]:
    count = rng.randint(*size.receptacles)
    pool = [kind for kind, most in room.optional for _ in range(most)]
    extra = rng.sample(pool, min(len(pool), max(0, count - len(room.fixed))))
    return tuple(sorted((*room.fixed, *extra)))


def _stand(rng: Random, types: tuple[str, ...]) -> tuple[Receptacle, ...]:
    spots = rng.sample([(x, y) for x in range(-9, 10) for y in range(-9, 10) if (x, y) != (0, 0)], len(types))
    return tuple(
        Receptacle(
            identifier(rng, kind), kind, f"loc_bar_{_signed(x)}_bar_{_signed(y)}_bar_{rng.randrange(4)}_bar_30"
        )
        for kind, (x, y) in zip(types, spots, strict=True)
    )


def identifier(rng: Random, kind: str) -> str:
    """A fresh identifier in the style of ALFWorld's. Basins carry their name at the end, as there."""
    numbers = "_bar_".join(_coordinate(rng) for _ in range(3))
    if kind in _BASINS:
        return f"{_BASINS[kind]}_bar_{numbers}_bar_{kind}"
    return f"{kind}_bar_{numbers}"


def _coordinate(rng: Random) -> str:
    sign = rng.choice(("_plus_", "_minus_"))
    return f"{sign}{rng.randrange(4):02d}_dot_{rng.randrange(100):02d}"


def _signed(number: int) -> str:
    return f"_minus_{-number}" if number < 0 else str(number)
