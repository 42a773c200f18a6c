"""Where products stand: in memory for a small catalogue, in a file for a large one. Positions count from 0."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from actfirst.environments.webshop.products import Product

_KEPT_IN_MEMORY = 4096


class Shelf(Protocol):
    """The products of a catalogue in its order."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int) -> Product: ...

    def position(self, asin: str) -> int | None:
        """Where the product of an asin stands."""
        ...

    def of_category(self, category: str) -> Sequence[int]:
        """Where the products of a category stand."""
        ...

    def of_query(self, query: str) -> Sequence[int]:
        """Where the products stand that were collected with a query."""
        ...


class MemoryShelf:
    """Products that are all in memory."""

    def __init__(self, products: Iterable[Product]) -> None:
        self._products = tuple(products)
        self._positions = {product.asin: position for position, product in enumerate(self._products)}

    def __len__(self) -> int:
        return len(self._products)

    def __getitem__(self, position: int) -> Product:
        return self._products[position]

    def position(self, asin: str) -> int | None:
        return self._positions.get(asin)

    def of_category(self, category: str) -> list[int]:
        return [at for at, product in enumerate(self._products) if product.category == category]

    def of_query(self, query: str) -> list[int]:
        return [at for at, product in enumerate(self._products) if product.query == query]


class Labels:
    """One label per product, such as its category; equal labels are stored once."""

    def __init__(self, names: Sequence[str], numbers: NDArray[np.uint32]) -> None:
        self._known = {name: number for number, name in enumerate(names)}
        self._numbers = numbers

    def positions(self, name: str) -> list[int]:
        number = self._known.get(name)
        if number is None:
            return []
        found: list[int] = np.flatnonzero(self._numbers == number).tolist()
        return found


class DiskShelf:
    """Products in a file of compressed records; those used lately are kept in memory."""

    def __init__(
        self,
        records: Path,
        starts: NDArray[np.uint64],
        find: Callable[[str], int | None],
        categories: Labels,
        queries: Labels,
    ) -> None:
        self._records = np.memmap(records, np.uint8, mode="r")
        self._starts = starts
        self._categories = categories
        self._queries = queries
        self._read = lru_cache(maxsize=_KEPT_IN_MEMORY)(self._read_record)
        self._find = lru_cache(maxsize=_KEPT_IN_MEMORY)(find)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, position: int) -> Product:
        return self._read(int(position))

    def position(self, asin: str) -> int | None:
        return self._find(asin)

    def of_category(self, category: str) -> list[int]:
        return self._categories.positions(category)

    def of_query(self, query: str) -> list[int]:
        return self._queries.positions(query)

    def _read_record(self, position: int) -> Product:
        start, end = int(self._starts[position]), int(self._starts[position + 1])
        return Product.load(zlib.decompress(self._records[start:end].tobytes()))
