"""Questions about the configuration models: which keys exist, what a key wants, where an error belongs.

This is what makes messages about mistakes helpful. It reads the annotations of the sections, so a new field
needs nothing here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic.fields import FieldInfo

from actfirst.config.base import Section
from actfirst.config.config import Config
from actfirst.environments.base import EnvironmentSection
from actfirst.environments.registry import available, built_in_kinds, find_kind

NAMES: dict[object, str] = {
    int: "a whole number",
    float: "a finite number",
    str: "a string",
    bool: "true or false",
    dict[str, object]: "a table",
}
KIND = "name"  # the key of an environment's table that says which environment it is


@dataclass(frozen=True)
class Place:
    """Where a validation error points: the dotted key, its section, and its field if it exists."""

    key: str
    section: type[Section] | None
    field: FieldInfo | None


def locate(location: Sequence[str | int], values: object, root: type[Section] = Config, key: str = "") -> Place:
    """The place of a pydantic error location in the tables that were given; they are a `root` and stand at `key`."""
    section: type[Section] | None = None
    inner: type[Section] | None = root
    field: FieldInfo | None = None
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
            inner = _section_of_items(field)
            continue
        key = f"{key}.{part}" if key else part
        section, field = inner, inner.model_fields.get(part) if inner else None
        values = values.get(part) if isinstance(values, Mapping) else None
        inner = _section_of(field, values)
    return Place(key, section, field)


def _section_of(field: FieldInfo | None, given: object) -> type[Section] | None:
    """The section that a field holds; of the environment, the one that was given."""
    annotation = field.annotation if field else None
    if annotation is EnvironmentSection and isinstance(given, Mapping) and given.get(KIND) in available():
        return find_kind(given[KIND]).section
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def _section_of_items(field: FieldInfo | None) -> type[Section] | None:
    """The section that each item of a list is, if it is one."""
    item = (get_args(field.annotation) or (None,))[0] if field else None
    return item if isinstance(item, type) and issubclass(item, Section) else None


def known_keys() -> list[str]:
    """Every dotted key that a recipe may set, in order."""
    return list(dict.fromkeys(_keys(Config, "")))


def suggest(key: str, section: type[Section]) -> str:
    """The right spelling of an unknown key: the same name elsewhere, a neighbour, or what the section has."""
    prefix, _, name = key.rpartition(".")
    dotted = f"{prefix}." if prefix else ""
    here = f"keys here are {', '.join(dotted + field for field in section.model_fields)}"
    if owners := _environments_with(name) if prefix == "environment" else []:
        return f"{names(owners)} {'has' if len(owners) == 1 else 'have'} it, this environment does not; {here}"
    elsewhere = [known for known in known_keys() if known.rpartition(".")[2] == name]
    longer = [dotted + field for field in section.model_fields if _shortens(name, field)]
    neighbours = [dotted + close for close in difflib.get_close_matches(name, section.model_fields, n=1)]
    anywhere = [known for known in known_keys() if _shortens(name, known.rpartition(".")[2])]
    better = elsewhere or longer or neighbours or anywhere or difflib.get_close_matches(key, known_keys(), n=1)
    return f"did you mean {' or '.join(better)}?" if better else here


def _environments_with(name: str) -> list[str]:
    return [kind for kind in available() if name in find_kind(kind).section.model_fields]


def _shortens(name: str, field: str) -> bool:
    """Whether `name` is the initials of a field (lr) or a good part of it (size)."""
    return name == "".join(word[0] for word in field.split("_")) or (len(name) >= 3 and name in field)


def wanted(field: FieldInfo) -> str:
    """What a field accepts, in words."""
    if field.annotation is EnvironmentSection:
        return f"a table whose {KIND} is one of {names(available())}"
    return _words(field.annotation, field.metadata)


def names(values: Iterable[str]) -> str:
    """Allowed names, quoted."""
    return ", ".join(f'"{value}"' for value in values)


def wanted_item(field: FieldInfo) -> str:
    """What each item of a list field must be, in words."""
    return _words(get_args(field.annotation)[0])


def _words(annotation: object, metadata: Sequence[object] = ()) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0], arguments[1:])
    if origin is Literal:
        return f"one of {names(arguments)}"
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            least = next((f" of at least {r.min_length}" for r in metadata if isinstance(r, MinLen)), "")
            return f"a list{least}, [...], in which each item is {_words(arguments[0])}"
        return f"a list of {len(arguments)}: [{', '.join(_words(argument) for argument in arguments)}]"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return f"a table with {', '.join(annotation.model_fields)}"
    bounds = " and ".join(text for rule in _flat(metadata) if (text := _bound(rule)))
    return f"{NAMES.get(annotation, str(annotation))}{' ' if bounds else ''}{bounds}"


def _flat(metadata: Sequence[object]) -> Iterator[object]:
    for rule in metadata:
        if isinstance(rule, FieldInfo):
            yield from rule.metadata
        else:
            yield rule


def _bound(rule: object) -> str:
    match rule:
        case Gt():
            return f"above {rule.gt}"
        case Ge():
            return f"of at least {rule.ge}"
        case Lt():
            return f"below {rule.lt}"
        case Le():
            return f"of at most {rule.le}"
    return ""


def _keys(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner = _section_of(field, None)
        if inner is None:
            yield prefix + name
        elif inner is EnvironmentSection:
            for kind in built_in_kinds().values():
                yield from _keys(kind.section, f"{prefix}{name}.")
        else:
            yield from _keys(inner, f"{prefix}{name}.")
