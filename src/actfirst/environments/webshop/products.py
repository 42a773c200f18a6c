"""Products, and the rules by which they are read from WebShop's item files.

One item of `items_shuffle*.json` and its entry in `items_ins_v2*.json` make one `Product`. Which items are kept
is decided here too: no asin `nan`, none longer than ten characters, and none twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from actfirst.reading import parse_json

LONGEST_ASIN = 10
NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""What stands in for the attributes of a product that the annotation file does not know."""

_DEFAULT_PRICE = 100.0
_NOT_A_NUMBER = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the shop shows and judges it. `options` are (group, values) in the file's order."""

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    category: str
    query: str
    product_category: str
    pricing: tuple[float, ...]
    price_tag: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()

    @property
    def combinations(self) -> int:
        """How many ways there are to choose one value of every option group."""
        count = 1
        for _, values in self.options:
            count *= len(values)
        return count

    def document(self) -> str:
        """The text under which the product is found."""
        options = ", and ".join(f"{group}: {', '.join(values)}" for group, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return " ".join((self.title, self.description, first, options)).lower()

    def dump(self) -> bytes:
        """A compact record from which `load` makes an equal product."""
        fields = [getattr(self, name) for name in self.__slots__]
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @staticmethod
    def load(record: bytes) -> Product:
        fields = parse_json(record.decode("utf-8", "surrogatepass"))
        return Product(*(_frozen(field) for field in fields))


def read_product(item: Mapping[str, Any], annotation: Mapping[str, Any] | None) -> Product:
    annotation = annotation or {}
    bullets = item["small_description"]
    pricing, tag = read_pricing(item.get("pricing"))
    return Product(
        asin=item["asin"],
        title=_text(item["name"]),
        description=_text(item["full_description"]),
        bullets=tuple(map(_text, bullets)) if isinstance(bullets, list) else (_text(bullets),),
        category=_text(item["category"]),
        query=_text(item["query"]).lower().strip(),
        product_category=_text(item["product_category"]),
        pricing=pricing,
        price_tag=tag,
        options=tuple(read_options(item.get("customization_options")).items()),
        attributes=tuple(annotation.get("attributes", NO_ATTRIBUTES)),
        instruction=annotation.get("instruction"),
        instruction_attributes=tuple(annotation.get("instruction_attributes") or ()),
    )


def read_pricing(pricing: str | None) -> tuple[tuple[float, ...], str]:
    """The price or the two ends of the price range, and how the shop writes it."""
    numbers = tuple(_numbers(pricing)) if pricing else ()
    if not numbers:
        return (_DEFAULT_PRICE,), f"${_DEFAULT_PRICE}"
    if len(numbers) == 1:
        return numbers, f"${numbers[0]}"
    return numbers[:2], f"${numbers[0]} to ${numbers[1]}"


def read_options(groups: Mapping[str, Any] | str | None) -> dict[str, tuple[str, ...]]:
    """Option groups by lower-case name; items without options have an empty text in the place of groups."""
    options: dict[str, tuple[str, ...]] = {}
    for group, contents in groups.items() if isinstance(groups, Mapping) else ():
        if contents is not None:
            options[group.lower()] = tuple(
                content["value"].strip().replace("/", " | ").lower() for content in contents
            )
    return options


def kept(items: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    seen: set[str] = set()
    for item in items:
        asin = item["asin"]
        if asin != "nan" and len(asin) <= LONGEST_ASIN and asin not in seen:
            seen.add(asin)
            yield item


def _numbers(pricing: str) -> Iterator[float]:
    for piece in pricing.split("$")[1:]:
        try:
            yield float(Decimal(_NOT_A_NUMBER.sub("", piece)))
        except InvalidOperation:
            continue  # nothing that could be a price


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _frozen(field: Any) -> Any:
    return tuple(map(_frozen, field)) if isinstance(field, list) else field
