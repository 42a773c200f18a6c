"""Where products stand: in memory for a small catalogue, in a file for a large one. Positions count from 0."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actfirst.environments.webshop.products import Product

_KEPT_IN_MEMORY = 4096


class Labels:
    """One label per product, such as its category. Equal labels have equal numbers, and are stored once."""

    def __init__(self, names: Sequence[str] = (), numbers: NDArray[np.uint32] | None = None) -> None:
        self.known = {name: number for number, name in enumerate(names)}
        self.numbers: array[int] | NDArray[np.uint32] = array("I") if numbers is None else numbers

    def add(self, label: str) -> None:
        assert isinstance(self.numbers, array)
        self.numbers.append(self.known.setdefault(label, len(self.known)))

    def positions(self, label: str) -> list[int]:
        found: list[int] = np.flatnonzero(np.asarray(self.numbers) == self.known.get(label, -1)).tolist()
        return found


@dataclass(frozen=True, slots=True)
class Shelf:
    """The products of a catalogue in its order. `position` tells where the product of an asin stands, the labels where
    those of a category stand, or those that were collected with a query."""

    size: int
    product: Callable[[int], Product]
    position: Callable[[str], int | None]
    categories: Labels
    queries: Labels

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, position: int) -> Product:
        return self.product(int(position))


def memory_shelf(products: Iterable[Product]) -> Shelf:
    shelved = tuple(products)
    categories, queries = Labels(), Labels()
    for product in shelved:
        categories.add(product.category)
        queries.add(product.query)
    positions = {product.asin: position for position, product in enumerate(shelved)}
    return Shelf(len(shelved), shelved.__getitem__, positions.get, categories, queries)


def disk_shelf(
    path: Path,
    starts: NDArray[np.uint64],
    find: Callable[[str], int | None],
    categories: Labels,
    queries: Labels,
) -> Shelf:
    """Products in a file of compressed records; those used lately are kept in memory."""
    records = np.memmap(path, np.uint8, mode="r")

    @lru_cache(maxsize=_KEPT_IN_MEMORY)
    def read(position: int) -> Product:
        start, end = int(starts[position]), int(starts[position + 1])
        return Product.load(zlib.decompress(records[start:end].tobytes()))

    return Shelf(len(starts) - 1, read, lru_cache(maxsize=_KEPT_IN_MEMORY)(find), categories, queries)
