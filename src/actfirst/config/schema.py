"""Questions about the configuration models: which keys exist, what a key wants, where an error belongs.

This is what makes messages about mistakes helpful. It reads the annotations of `models.py`, so a new field
needs nothing here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import Discriminator
from pydantic.fields import FieldInfo

from actfirst.config.sections import PLUGIN, Config, Section
from actfirst.environments.entry_points import installed_environments

NAMES: dict[object, str] = {
    int: "a whole number",
    float: "a finite number",
    str: "a string",
    bool: "true or false",
    dict[str, object]: "a table",
}
KIND = "name"  # the key that says which kind a table is, where a table exists in several


@dataclass(frozen=True)
class Place:
    """Where a validation error points: the dotted key, its section, and its field if it exists."""

    key: str
    section: type[Section] | None
    field: FieldInfo | None


def locate(location: Sequence[str | int], root: type[Section] = Config, key: str = "") -> Place:
    """The place of a pydantic error location in `root`, which stands at `key`. A union's tag is part of the location
    but not of the key."""
    section: type[Section] | None = None
    choices: list[type[Section]] = [root]
    field: FieldInfo | None = None
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        elif len(choices) > 1:
            choices = [choice for choice in choices if _tag(choice) == part]
        else:
            key = f"{key}.{part}" if key else part
            section = choices[0] if choices else None
            field = section.model_fields.get(part) if section else None
            choices = sections_of(field)
    return Place(key, section, field)


def sections_of(field: FieldInfo | None) -> list[type[Section]]:
    """The section a field holds, or all that it may hold; empty for a plain value."""
    if field is None:
        return []
    several = isinstance(field.annotation, UnionType) or get_origin(field.annotation) is Union
    options = [_bare(option) for option in (get_args(field.annotation) if several else (field.annotation,))]
    return [option for option in options if isinstance(option, type) and issubclass(option, Section)]


def tables_of_kinds() -> list[str]:
    """Tables that exist in several kinds."""
    return [name for name, field in Config.model_fields.items() if _in_kinds(field)]


def kinds(field: FieldInfo) -> list[str]:
    """The names that a table of several kinds may have; empty for everything else."""
    if not _in_kinds(field):
        return []
    own = [tag for section in sections_of(field) if (tag := _tag(section)) != PLUGIN]
    return [*own, *(name for name in installed_environments() if name not in own)]


def known_keys() -> list[str]:
    """Every dotted key that a recipe may set, in order."""
    return list(dict.fromkeys(_keys(Config, "")))


def suggest(key: str, section: type[Section]) -> str:
    """The right spelling of an unknown key: the same name elsewhere, a neighbour, or what the section has."""
    prefix, _, name = key.rpartition(".")
    dotted = f"{prefix}." if prefix else ""
    elsewhere = [known for known in known_keys() if known.rpartition(".")[2] == name]
    longer = [dotted + field for field in section.model_fields if _shortens(name, field)]
    neighbours = [dotted + close for close in difflib.get_close_matches(name, section.model_fields, n=1)]
    anywhere = [known for known in known_keys() if _shortens(name, known.rpartition(".")[2])]
    better = elsewhere or longer or neighbours or anywhere or difflib.get_close_matches(key, known_keys(), n=1)
    if better:
        return f"did you mean {' or '.join(better)}?"
    return f"keys here are {', '.join(dotted + field for field in section.model_fields)}"


def _shortens(name: str, field: str) -> bool:
    """Whether `name` is the initials of a field (lr) or a good part of it (size)."""
    return name == "".join(word[0] for word in field.split("_")) or (len(name) >= 3 and name in field)


def wanted(field: FieldInfo) -> str:
    """What a field accepts, in words."""
    names = ", ".join(f'"{name}"' for name in kinds(field))
    return f"a table whose {KIND} is one of {names}" if names else _words(field.annotation, field.metadata)


def wanted_item(field: FieldInfo) -> str:
    """What each item of a list field must be, in words."""
    return _words(get_args(field.annotation)[0])


def _words(annotation: object, metadata: Sequence[object] = ()) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0], arguments[1:])
    if origin is Literal:
        return "one of " + ", ".join(f'"{value}"' for value in arguments)
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


def _bare(option: object) -> object:
    return get_args(option)[0] if get_origin(option) is Annotated else option


def _in_kinds(field: FieldInfo) -> bool:
    return any(isinstance(rule, Discriminator) for rule in field.metadata)


def _tag(section: type[Section]) -> str:
    """The name of a kind; a plug-in is called as its entry point is, so its section has none of its own."""
    name = section.model_fields[KIND]
    return PLUGIN if name.is_required() else str(name.default)


def _keys(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner = sections_of(field)
        if not inner:
            yield prefix + name
        for choice in inner:
            yield from _keys(choice, f"{prefix}{name}.")
