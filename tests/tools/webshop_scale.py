"""A catalogue of any size in WebShop's file format, to measure what a full one costs. Its products mean nothing.

    from tests.tools.webshop_scale import measure_scale
    print(measure_scale(1_200_000, "scale"))

Lengths follow the published set of 1,000 products: titles of some 15 words, documents of some 130, records of 4 kB
in the file. Words come from an invented vocabulary with the frequencies of natural text, and product codes that
occur once.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from actfirst.environments.webshop.catalogue import find_files
from actfirst.environments.webshop.disk import indexed_catalogue, open_catalogue
from actfirst.errors import EnvironmentFailure

_VOCABULARY = 60_000
_COLLECTED_WITH = 600  # different queries: a catalogue has few, with many products each
_ONSETS = (
    "b",
    "br",
    "c",
    "d",
    "f",
    "fl",
    "g",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
)
_RIMES = ("a", "an", "ar", "e", "el", "en", "er", "i", "in", "is", "o", "on", "or", "u", "um", "us")
_FILLER = "https://images.example/" + "0123456789abcdef" * 3
_MEGABYTE = 1 << 20
_QUERIES = 300


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """What a catalogue of a size costs. Memory is in MB: at the peak of the build, and of a process that has opened
    the catalogue and searched (all resident pages, and those that no file backs). Times are in seconds, searches
    in milliseconds."""

    products: int
    items_megabytes: float
    index_megabytes: float
    write_seconds: float
    build_seconds: float
    build_peak_memory: float
    open_seconds: float
    resident_memory: float
    private_memory: float
    search_median: float
    search_p95: float
    search_worst: float


def write_catalogue(folder: Path, count: int, seed: int = 0) -> None:
    """Writes the three files of a catalogue of `count` products, one product at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    if there := sorted(folder.glob("items_*.json")):
        raise EnvironmentFailure(f"{there[0]} is not written over; name a folder without product files")
    words = _Words(seed)
    with (
        (folder / "items_shuffle.json").open("w", encoding="utf-8") as items,
        (folder / "items_ins_v2.json").open("w", encoding="utf-8") as annotations,
    ):
        items.write("[")
        annotations.write("{")
        for number in range(count):
            separator = ", " if number else ""
            item, annotation = _product(words, number)
            items.write(separator + json.dumps(item))
            annotations.write(f"{separator}{json.dumps(item['asin'])}: {json.dumps(annotation)}")
        items.write("]")
        annotations.write("}")
    (folder / "items_human_ins.json").write_text("{}", encoding="utf-8")


def measure_scale(count: int, folder: str | Path, seed: int = 0) -> ScaleReport:
    """Writes a catalogue to `folder`, indexes it, opens it and searches, each in a process of its own."""
    home = Path(folder)
    started = time.monotonic()
    write_catalogue(home, count, seed)
    written = time.monotonic() - started
    build_seconds, peak = _alone(_build, home)
    use = _alone(_use, home, seed)
    index = sum(path.stat().st_size for path in (home / "index").iterdir())
    latencies = use["latencies"]
    return ScaleReport(
        products=count,
        items_megabytes=(home / "items_shuffle.json").stat().st_size / _MEGABYTE,
        index_megabytes=index / _MEGABYTE,
        write_seconds=written,
        build_seconds=build_seconds,
        build_peak_memory=peak,
        open_seconds=use["open"],
        resident_memory=use["resident"],
        private_memory=use["private"],
        search_median=median(latencies),
        search_p95=quantiles(latencies, n=20)[-1],
        search_worst=max(latencies),
    )


def _alone(function: Any, *arguments: Any) -> Any:
    """Calls a function in a fresh process, so that its memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def _build(home: Path) -> tuple[float, float]:
    started = time.monotonic()
    indexed_catalogue(find_files(home), home / "index")
    return time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _use(home: Path, seed: int) -> dict[str, Any]:
    import psutil

    started = time.monotonic()
    catalogue = open_catalogue(home / "index")
    opened = time.monotonic() - started
    rng = random.Random(seed)
    latencies: list[float] = []
    for _ in range(_QUERIES):
        title = catalogue.shelf[rng.randrange(len(catalogue.shelf))].title.split()
        query = " ".join(rng.sample(title, min(len(title), rng.randint(2, 10))))
        started = time.monotonic()
        hits = catalogue.search(query)
        latencies.append(1000 * (time.monotonic() - started))
        for asin in hits[:10]:
            position = catalogue.shelf.position(asin)
            assert position is not None
            assert catalogue.shelf[position].asin == asin
    memory = psutil.Process().memory_full_info()
    return {
        "open": opened,
        "latencies": latencies,
        "resident": memory.rss / _MEGABYTE,
        "private": memory.uss / _MEGABYTE,
    }


class _Words:
    """Draws words: the n-th most frequent is n times as rare as the first."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._words = list(self._invent())
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))
        self.queries = [" ".join(self(1, 2)) for _ in range(_COLLECTED_WITH)]

    def __call__(self, least: int, most: int) -> list[str]:
        count = self.rng.randint(least, most)
        return self.rng.choices(self._words, cum_weights=self._weights, k=count)

    def _invent(self) -> Iterator[str]:
        seen: set[str] = set()
        while len(seen) < _VOCABULARY:
            syllables = self.rng.randint(1, 2 + len(seen) // 20_000)
            word = "".join(self.rng.choice(_ONSETS) + self.rng.choice(_RIMES) for _ in range(syllables))
            if word not in seen:
                seen.add(word)
                yield word


def _product(words: _Words, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    rng = words.rng
    attributes = [" ".join(words(2, 2)) for _ in range(rng.randint(1, 5))]
    wanted = attributes[:2]
    query = rng.choice(words.queries)
    price = rng.randint(500, 40_000) / 100
    item = {
        "asin": f"B{number:09d}",
        "name": " ".join([*words(8, 22), f"{rng.randrange(1 << 24):x}"]).title(),
        "full_description": " ".join(words(0, 150)),
        "small_description": [" ".join(words(8, 25)).capitalize() for _ in range(rng.randint(1, 6))],
        "product_category": " \u203a ".join(" ".join(words(1, 2)) for _ in range(4)),
        "category": rng.choice(("beauty", "garden", "grocery", "electronics", "fashion")),
        "query": query,
        "pricing": f"${price}" if rng.random() < 0.8 else f"${price} - ${price + 10}",
        "customization_options": _options(words) if rng.random() < 0.48 else "",
        "images": [f"{_FILLER}{image}.jpg" for image in range(rng.randint(12, 36))],
    }
    annotation = {
        "attributes": attributes,
        "instruction": f"Find me {', '.join(wanted)} {query}",
        "instruction_attributes": wanted,
    }
    return item, annotation


def _options(words: _Words) -> dict[str, list[dict[str, str]]]:
    groups = words.rng.sample(("color", "size", "style", "flavor name"), words.rng.randint(1, 2))
    return {
        group: [
            {"value": " ".join(words(1, 3)), "image": f"{_FILLER}.jpg"} for _ in range(words.rng.randint(1, 12))
        ]
        for group in groups
    }
