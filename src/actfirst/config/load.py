"""From a recipe and overrides to a checked `Config`, and back to TOML.

Layers are merged table by table, later ones win: the oldest ancestor of the recipe, its heirs, the recipe, the
command line. Nothing is started before every key, type and combination is known to be right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from actfirst.config.base import Section
from actfirst.config.checks import combination_mistakes, method_constants, method_mistakes
from actfirst.config.config import Config
from actfirst.config.mistakes import NOT_GIVEN, Mistake, config_error, from_validation
from actfirst.config.recipe_files import Layer, anchored, read_layers
from actfirst.config.schema import KIND
from actfirst.reading import Unreadable, parse_toml

COMMAND_LINE = "command line"
_ENVIRONMENT = "environment"
Tables = dict[str, object]


def resolve(recipe: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The configuration that `recipe` (a name, or the path of a .toml file) and `overrides` describe.

    Overrides are dotted: "learner.learning_rate=3e-4". Raises ConfigError with every mistake at once.
    """
    layers = read_layers(recipe)
    command_line, mistakes = parse_overrides(overrides)
    values, origins = merge([*layers, command_line])
    tables = cast("Tables", _tuples(values))
    mistakes += method_mistakes(tables, origins)
    constants, wrong = method_constants(tables, origins)
    mistakes += wrong
    try:
        config = Config.model_validate({**tables, "methods": constants})
    except ValidationError as error:
        raise config_error(recipe, mistakes + from_validation(error, values, origins)) from None
    mistakes += combination_mistakes(config, origins)
    if mistakes:
        raise config_error(recipe, mistakes)
    return _with_length(config)


def _with_length(config: Config) -> Config:
    """With the length of the learner's schedule, which knows no run."""
    learner = config.learner
    if learner.schedule == "constant" or learner.schedule_updates:
        return config
    filled = learner.model_copy(update={"schedule_updates": config.run.updates})
    return config.model_copy(update={"learner": filled})


def parse_overrides(overrides: Sequence[str]) -> tuple[Layer, list[Mistake]]:
    """Texts like `a.b=value` as one layer. Values are TOML, bare words strings; the last of equal keys wins."""
    values: Tables = {}
    mistakes: list[Mistake] = []
    for text in overrides:
        key, equals, raw = text.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            remedy = "an override is written key=value with a dotted key, as in learner.learning_rate=3e-4"
            mistakes.append(Mistake(text, NOT_GIVEN, remedy, COMMAND_LINE))
            continue
        try:
            value = parse_value(raw.strip())
        except ValueError as error:
            mistakes.append(Mistake(key, raw, str(error), COMMAND_LINE))
            continue
        table = values
        for part in parts[:-1]:
            inner = table.get(part)
            if not isinstance(inner, dict):
                inner = table[part] = {}
            table = cast("Tables", inner)
        table[parts[-1]] = value
    return Layer(COMMAND_LINE, anchored(values, Path())), mistakes


def parse_value(text: str) -> object:
    """The TOML value of a text; a bare word (also a date or a path) is a string."""
    try:
        parsed = parse_toml(f"value = {text}")
    except Unreadable as error:
        if text[:1] in ("[", "{", '"', "'"):
            example = (
                """lists and strings follow TOML, and a shell needs quotes around them: 'key=["a", "b"]'"""
            )
            raise ValueError(f"is not a TOML value: {error}; {example}") from None
        return text
    value = parsed["value"]
    plain = isinstance(value, bool | int | float | str | list | dict)
    return value if plain and len(parsed) == 1 else text


def merge(layers: Sequence[Layer]) -> tuple[Tables, dict[str, str]]:
    """All layers in one, and for each dotted key the source that set it.

    The environment's table starts afresh when a layer names another environment: the keys of one mean nothing to
    another.
    """
    values: Tables = {}
    origins: dict[str, str] = {}
    for layer in layers:
        if _changes_kind(values.get(_ENVIRONMENT), layer.values.get(_ENVIRONMENT)):
            values[_ENVIRONMENT] = {}
            _forget(origins, _ENVIRONMENT)
        _merge_table(values, layer.values, layer.source, origins, "")
    return values, origins


def dump_toml(config: Config) -> str:
    """The whole configuration as TOML, with the meaning of its keys; `resolve` reads it back unchanged."""
    return "\n".join(_lines(config, "")).lstrip("\n") + "\n"


def differences(one: Config, other: Config) -> list[str]:
    """The dotted keys at which two configurations differ."""
    left, right = dict(_leaves(one.model_dump(), "")), dict(_leaves(other.model_dump(), ""))
    return [key for key in dict.fromkeys([*left, *right]) if left.get(key) != right.get(key)]


def _merge_table(
    base: Tables, new: Mapping[str, object], source: str, origins: dict[str, str], path: str
) -> None:
    for name, value in new.items():
        key = path + name
        if isinstance(value, dict):
            inner = base.get(name)
            if not isinstance(inner, dict):
                inner = base[name] = {}
                origins.pop(key, None)
            _merge_table(cast("Tables", inner), value, source, origins, f"{key}.")
            if not value:
                origins[key] = source
        else:
            if isinstance(base.get(name), dict):
                _forget(origins, key)
            base[name] = value
            origins[key] = source


def _changes_kind(old: object, new: object) -> bool:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    return KIND in old and KIND in new and bool(old[KIND] != new[KIND])


def _forget(origins: dict[str, str], table: str) -> None:
    for key in [key for key in origins if key.startswith(f"{table}.")]:
        del origins[key]


def _tuples(value: object) -> object:
    """Lists become tuples: the models are immutable and strict, TOML knows only lists."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _leaves(tables: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in tables.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _lines(section: Section, path: str) -> Iterator[str]:
    fields: dict[str, FieldInfo] = type(section).model_fields
    for name, value in section:
        if not isinstance(value, Section):
            meaning = fields[name].description
            yield f"{name} = {_toml_value(value)}{f'  # {meaning}' if meaning else ''}"
    for name, value in section:
        if isinstance(value, Section):
            yield ""
            yield f"[{path}{name}]"
            yield from _lines(value, f"{path}{name}.")


def _toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's, except that TOML also wants DEL escaped
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple():
            return f"[{', '.join(_toml_value(item) for item in value)}]"
        case Section():
            return _toml_value(value.model_dump())
        case dict():
            entries = (f"{_toml_value(str(key))} = {_toml_value(item)}" for key, item in value.items())
            return f"{{{', '.join(entries)}}}"
    raise TypeError(f"no TOML form for {value!r}")
