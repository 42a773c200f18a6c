"""A large catalogue on disk: indexed once, with progress, and then used with little memory.

The index folder is complete in itself: the search index, product records, labels, prices and what the goals need.
It is written beside its final place and moved there when it is done, under a lock, so that several processes may
ask for the same index. What a killed build leaves (`<folder>.partial`) is never used, and removed by the next build.
Only a folder that is absent, empty or an index of ours, known by its meta.json, is ever replaced: the name of a folder
comes from a user, who may have mistyped it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actfirst.environments.webshop.catalogue import (
    Catalogue,
    CatalogueFiles,
    in_order,
    read_human,
    read_products,
    remembering_search,
)
from actfirst.environments.webshop.goals import Goal, MadeGoals, draw_caps, draw_prices, goal_order, human_goals
from actfirst.environments.webshop.json_stream import stream_object
from actfirst.environments.webshop.products import Product
from actfirst.environments.webshop.search.builder import IndexBuilder
from actfirst.environments.webshop.search.index import SearchIndex
from actfirst.environments.webshop.shelf import Labels, Shelf, disk_shelf
from actfirst.errors import EnvironmentFailure
from actfirst.reading import Unreadable, parse_json, read_json, read_object
from actfirst.runs.lock import RunLock

FORMAT = 2
"""Counts changes after which an index has to be built again."""

Progress = Callable[[str, int], None]
"""Told what is being done and how many products are through."""

_META = "meta.json"
_REPLACED = "replaced"
_UNFINISHED = 0
"""The format of an index that is not finished, which no program asks for."""

Source = dict[str, Any]
"""What an index was made of: `format`, `limit`, `files`."""

_RECORDS = "products.bin"
_SECONDS_BETWEEN_LINES = 5.0


def indexed_catalogue(
    files: CatalogueFiles, folder: Path, limit: int | None = None, progress: Progress | None = None
) -> Catalogue:
    """The catalogue of some files, from the index in `folder`, which is built now if it is not there."""
    folder = folder.resolve()
    source = _source(files, limit)
    if made_of(folder) != source:
        try:
            check_place(folder, files)
            folder.parent.mkdir(parents=True, exist_ok=True)
            with RunLock.wait_for(folder.with_name(f"{folder.name}.lock")):
                if made_of(folder) != source:
                    _build(files, folder, limit, source, progress or lines_on_stderr())
        except PermissionError as error:
            raise EnvironmentFailure(
                f"the search index cannot be written to {folder} ({error.strerror}); "
                "name a folder that can be written with environment.index"
            ) from error
    return open_catalogue(folder)


def is_indexed(files: CatalogueFiles, folder: Path, limit: int | None = None) -> bool:
    """Whether the index in `folder` is that of some files as they are now."""
    return made_of(folder) == _source(files, limit)


def open_catalogue(folder: Path) -> Catalogue:
    meta = read_meta(folder)
    index = SearchIndex.open(folder)
    shelf = disk_shelf(
        folder / _RECORDS,
        np.load(folder / "record_starts.npy", mmap_mode="r"),
        index.find,
        Labels(meta["categories"], np.load(folder / "category_numbers.npy", mmap_mode="r")),
        Labels(meta["queries"], np.load(folder / "query_numbers.npy", mmap_mode="r")),
    )
    prices = np.load(folder / "prices.npy", mmap_mode="r")
    return Catalogue(
        shelf=shelf,
        price=lambda asin: float(prices[_position(shelf, asin)]),
        search=remembering_search(index, lambda document: index.names[index.ranks[document]].decode()),
        goals=lambda kind: _human(folder, shelf, prices) if kind == "human" else _made(folder, shelf),
        fingerprint=meta["fingerprint"],
    )


def lines_on_stderr() -> Progress:
    """Progress as a line every few seconds."""
    started = shown = time.monotonic()

    def show(what: str, count: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= _SECONDS_BETWEEN_LINES:
            shown = now
            words = f"webshop: {what}: {count:,} products, {now - started:.0f} s"
            print(words, file=sys.stderr, flush=True)  # noqa: T201  words of our own, where no console is

    return show


def _source(files: CatalogueFiles, limit: int | None) -> Source:
    return {"format": FORMAT, "limit": limit, "files": files.versions}


def _build(files: CatalogueFiles, folder: Path, limit: int | None, source: Source, progress: Progress) -> None:
    with replacing(folder, source) as partial:
        writer = _Writer(partial)
        for product in read_products(files, limit, _Annotations(files.annotations, progress).get):
            writer.add(product)
            progress("indexing", writer.count)
        progress("sorting the index", writer.count)
        writer.finish(read_human(files), source)


class _Annotations:
    """The annotation file in memory, as text: a fifth of the size of its objects."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self._texts: dict[str, bytes] = {}
        for asin, annotation in stream_object(path):
            self._texts[asin] = json.dumps(annotation).encode()
            progress("reading attributes", len(self._texts))

    def get(self, asin: str) -> dict[str, Any] | None:
        text = self._texts.get(asin)
        annotation: dict[str, Any] | None = None if text is None else parse_json(text)
        return annotation


class _Writer:
    """Writes products as they come, and at the end what can only be known of all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._builder = IndexBuilder(folder)
        self._records = (folder / _RECORDS).open("wb")
        self._starts = array("Q", [0])
        self._categories = Labels()
        self._queries = Labels()
        self._combinations = array("q")
        self._asked = array("b")
        self._lows = array("d")
        self._highs = array("d")
        self._digest = sha256()

    @property
    def count(self) -> int:
        return len(self._lows)

    def add(self, product: Product) -> None:
        record = product.dump()
        self._digest.update(record)
        self._starts.append(self._starts[-1] + self._records.write(zlib.compress(record, 1)))
        self._builder.add(product.asin, product.document())
        self._categories.add(product.category)
        self._queries.add(product.query)
        has_goal = product.instruction is not None
        self._asked.append(has_goal)
        self._combinations.append(product.combinations if has_goal else 0)
        self._lows.append(product.pricing[0])
        self._highs.append(product.pricing[1] if len(product.pricing) > 1 else math.nan)

    def finish(self, human: dict[str, list[dict[str, Any]]], source: Source) -> None:
        self._records.close()
        index = self._builder.finish()
        index.save(self._folder)
        ranges = zip(self._lows, self._highs, strict=True)
        prices = np.array(draw_prices((low,) if math.isnan(high) else (low, high) for low, high in ranges))
        asked = np.frombuffer(self._asked, np.int8).astype(np.bool_)
        caps = np.zeros(len(prices), np.float64)
        caps[asked] = draw_caps(prices[asked].tolist())
        arrays: dict[str, NDArray[Any]] = {
            "record_starts": np.frombuffer(self._starts, np.uint64),
            "category_numbers": np.asarray(self._categories.numbers),
            "query_numbers": np.asarray(self._queries.numbers),
            "goal_ends": np.cumsum(np.frombuffer(self._combinations, np.int64)),
            "prices": prices,
            "caps": caps,
        }
        for name, values in arrays.items():
            np.save(self._folder / f"{name}.npy", values)
        found = sorted((position, asin) for asin in human if (position := index.find(asin)) is not None)
        written = json.dumps([[position, human[asin]] for position, asin in found])
        (self._folder / "human.json").write_text(written, encoding="utf-8")
        meta = {
            "fingerprint": self._digest.hexdigest()[:16],
            "categories": list(self._categories.known),
            "queries": list(self._queries.known),
        }
        write_meta(self._folder, source, meta)


def _made(folder: Path, shelf: Shelf) -> MadeGoals:
    """Generated goals; their order takes a while on a full catalogue, so it is kept in the folder."""
    ends = np.load(folder / "goal_ends.npy", mmap_mode="r")
    path = folder / "goal_order.npy"
    if not path.is_file():
        partial = path.with_name(f"goal_order.{os.getpid()}.npy")
        np.save(partial, np.array(goal_order(int(ends[-1])), np.uint32))
        os.replace(partial, path)
    caps = np.load(folder / "caps.npy", mmap_mode="r")
    return MadeGoals(shelf.__getitem__, ends, caps, np.load(path, mmap_mode="r"))


def _human(folder: Path, shelf: Shelf, prices: NDArray[np.float64]) -> list[Goal]:
    written = read_json(folder / "human.json")
    annotated = ((shelf[position], float(prices[position]), texts) for position, texts in written)
    return in_order(human_goals(annotated))


def _position(shelf: Shelf, asin: str) -> int:
    position = shelf.position(asin)
    if position is None:
        raise KeyError(asin)
    return position


def made_of(folder: Path) -> Source | None:
    """The source of an index; None for a folder that is not an index, or absent."""
    try:
        source = read_object(folder / _META).get("source")
    except Unreadable:
        return None
    return source if isinstance(source, dict) and {"format", "limit", "files"} <= source.keys() else None


def read_meta(folder: Path) -> dict[str, Any]:
    return read_object(folder / _META)


def write_meta(folder: Path, source: Source, more: Mapping[str, Any]) -> None:
    (folder / _META).write_text(json.dumps({"source": source, **more}), encoding="utf-8")


def check_place(folder: Path, files: CatalogueFiles) -> None:
    """Refuse a folder that holds something else than an index, the files that are to be indexed above all."""
    for path in files.present:
        if any(place.is_relative_to(folder) for place in (path.resolve(), path.parent.resolve())):
            raise EnvironmentFailure(
                f"the search index cannot be written to {folder}, because the product files are in it ({path}); "
                "name another folder with environment.index"
            )
    _check_replaceable(folder)


@contextmanager
def replacing(folder: Path, source: Source) -> Iterator[Path]:
    """A new folder to write an index into; it takes the place of `folder` unless an error ends the writing."""
    partial = folder.with_name(f"{folder.name}.partial")
    _check_replaceable(partial)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir()
    write_meta(partial, {**source, "format": _UNFINISHED}, {})
    yield partial
    _check_replaceable(folder)  # once more: building takes minutes
    if folder.exists():
        os.rename(folder, partial / _REPLACED)  # removed after the move: a kill leaves no half of an index
    os.replace(partial, folder)
    shutil.rmtree(folder / _REPLACED, ignore_errors=True)


def _check_replaceable(place: Path) -> None:
    if not os.path.lexists(place):
        return
    if place.is_dir() and not place.is_symlink() and (made_of(place) or not any(place.iterdir())):
        return
    raise EnvironmentFailure(
        f"the search index is not written over {place}, which is not an index of actfirst; move it away, or name a "
        "folder that is empty or does not exist with environment.index"
    )
