"""A catalogue: products, prices, the search and the goals, from files that a user has or from the package.

WebShop's files are `items_shuffle*.json` (products), `items_ins_v2*.json` (attributes, generated instructions) and
`items_human_ins.json` (instructions by people). Up to 64 MB of products are read into memory, as the 1,000-product
set is. Larger files are indexed once, on disk (`disk.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files as package_files
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal

from actfirst.environments.webshop.goals import Goal, MadeGoals, draw_caps, draw_prices, goal_order, human_goals
from actfirst.environments.webshop.json_stream import stream_list, stream_object
from actfirst.environments.webshop.products import Product, kept, read_product
from actfirst.environments.webshop.search.builder import IndexBuilder
from actfirst.environments.webshop.search.index import SearchIndex
from actfirst.environments.webshop.shelf import Shelf, memory_shelf
from actfirst.errors import EnvironmentFailure
from actfirst.reading import parse_json

GoalKind = Literal["human", "synthetic"]

READ_INTO_MEMORY = 64 << 20
"""Product files up to this many bytes are not indexed on disk."""

_ITEMS = "items_shuffle"
_ANNOTATIONS = "items_ins_v2"
_HUMAN = "items_human_ins.json"
_SEARCHES_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything of a shop but its noun tagger. `goals` gives those of a kind, in shuffled order.

    `fingerprint` tells the products; that of a world covers what people wrote as well.
    """

    shelf: Shelf
    price: Callable[[str], float]
    search: Callable[[str], Sequence[str]]
    goals: Callable[[GoalKind], Sequence[Goal]]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CatalogueFiles:
    """The files of one catalogue; `human` may be absent."""

    items: Path
    annotations: Path
    human: Path | None

    @property
    def present(self) -> list[Path]:
        return [path for path in (self.items, self.annotations, self.human) if path is not None]

    @property
    def versions(self) -> dict[str, list[int]]:
        """Sizes and times of change by name: what tells that a file is another one without reading gigabytes."""
        states = {path.name: path.stat() for path in self.present}
        return {name: [state.st_size, state.st_mtime_ns] for name, state in states.items()}


def find_files(folder: Path) -> CatalogueFiles:
    """The catalogue files of a folder. Where it holds several sets, the full one (`items_shuffle.json`) counts."""
    for items in sorted(folder.glob(f"{_ITEMS}*.json"), key=lambda path: (len(path.name), path.name)):
        annotations = folder / items.name.replace(_ITEMS, _ANNOTATIONS, 1)
        if annotations.is_file():
            human = folder / _HUMAN
            return CatalogueFiles(items, annotations, human if human.is_file() else None)
    raise EnvironmentFailure(
        f"no WebShop catalogue in {folder}: expected {_ITEMS}.json and {_ANNOTATIONS}.json (or the sets of 1,000 "
        f"products, {_ITEMS}_1000.json and {_ANNOTATIONS}_1000.json), and {_HUMAN} for goals written by people; "
        "docs/webshop.md says where to get them"
    )


def sample_catalogue() -> Catalogue:
    """The small catalogue that ships with the package: invented products, no download."""
    text = (package_files("actfirst.environments.webshop") / "sample.json").read_text(encoding="utf-8")
    content = parse_json(text)
    products = (read_product(item, content["annotations"].get(item["asin"])) for item in kept(content["items"]))
    return memory_catalogue(products, content["human"])


def read_catalogue(files: CatalogueFiles, limit: int | None = None) -> Catalogue:
    """A catalogue whose products all fit into memory; `limit` takes the first items of the file only."""
    annotations = dict(stream_object(files.annotations))
    return memory_catalogue(read_products(files, limit, annotations.get), read_human(files))


def read_products(
    files: CatalogueFiles, limit: int | None, annotation: Callable[[str], Mapping[str, Any] | None]
) -> Iterator[Product]:
    for item in kept(islice(stream_list(files.items), limit)):
        yield read_product(item, annotation(item["asin"]))


def read_human(files: CatalogueFiles) -> dict[str, list[dict[str, Any]]]:
    """What people wrote, by asin."""
    return {} if files.human is None else dict(stream_object(files.human))


def memory_catalogue(
    products: Iterable[Product], human: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Catalogue:
    shelved = tuple(products)
    prices = draw_prices(product.pricing for product in shelved)
    builder = IndexBuilder()
    digest = sha256()
    for product in shelved:
        builder.add(product.asin, product.document())
        digest.update(product.dump())
    annotated = [
        (product, price, human[product.asin])
        for product, price in zip(shelved, prices, strict=True)
        if product.asin in human
    ]
    asins = [product.asin for product in shelved]
    return Catalogue(
        shelf=memory_shelf(shelved),
        price=dict(zip(asins, prices, strict=True)).__getitem__,
        search=remembering_search(builder.finish(), asins.__getitem__),
        goals={
            "human": in_order(human_goals(annotated)),
            "synthetic": _made_goals(shelved, prices),
        }.__getitem__,
        fingerprint=digest.hexdigest()[:16],
    )


def remembering_search(index: SearchIndex, asin: Callable[[int], str]) -> Callable[[str], Sequence[str]]:
    """The search of an index. Turning a page searches again, so the last results are kept."""

    @lru_cache(maxsize=_SEARCHES_KEPT)
    def search(query: str) -> tuple[str, ...]:
        return tuple(asin(int(document)) for document in index.search(query))

    return search


def in_order(goals: Sequence[Goal]) -> list[Goal]:
    """Goals in the order that gives them their ids."""
    return [goals[number] for number in goal_order(len(goals))]


def _made_goals(products: Sequence[Product], prices: Sequence[float]) -> Sequence[Goal]:
    asked = [product.instruction is not None for product in products]
    caps = iter(draw_caps(price for price, has in zip(prices, asked, strict=True) if has))
    counts = (product.combinations if has else 0 for product, has in zip(products, asked, strict=True))
    return MadeGoals(
        products.__getitem__, list(accumulate(counts)), [next(caps) if has else 0.0 for has in asked]
    )
