"""Everything wrong with a configuration, as one message.

A mistake names the dotted key, what was given, where it was given, and what would be right. All mistakes are
reported together: nobody should have to run a command five times to find five typing errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from actfirst.config.base import Section
from actfirst.config.config import Config
from actfirst.config.schema import KIND, Place, locate, names, suggest, wanted, wanted_item
from actfirst.environments.registry import available
from actfirst.errors import ConfigError, without_passwords

NOT_GIVEN: Final = object()
SHOWN = 80


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong. `given` is NOT_GIVEN where a key is missing or where several keys disagree."""

    key: str
    given: object
    remedy: str
    source: str = ""

    def __str__(self) -> str:
        given = "" if self.given is NOT_GIVEN else f" = {show(self.given)}"
        source = f" ({self.source})" if self.source else ""
        return f"{self.key}{given}{source}: {self.remedy}"


def config_error(recipe: object, mistakes: Sequence[Mistake]) -> ConfigError:
    """The error that carries all mistakes, one per line."""
    head = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    return ConfigError("\n".join([f"{head} in the configuration of {recipe}", *(f"  - {m}" for m in mistakes)]))


def from_validation(
    error: ValidationError,
    values: object,
    origins: Mapping[str, str],
    root: type[Section] = Config,
    key: str = "",
) -> list[Mistake]:
    """Pydantic's findings about the tables `values`, in our words. `origins` says which source set each dotted key;
    `root` is the section of the tables, which stand at `key`."""
    found = error.errors(include_url=False)
    return [_mistake(finding, locate(finding["loc"], values, root, key), origins) for finding in found]


def source_of(key: str, origins: Mapping[str, str]) -> str:
    """Who set a key, or the keys below it; empty where nobody did."""
    plain = key.partition("[")[0]
    if plain in origins:
        return origins[plain]
    below = [origins[known] for known in origins if known.startswith(plain + ".")]
    return ", ".join(dict.fromkeys(below))


def show(value: object) -> str:
    """A value as a recipe would write it, cut where it is long."""
    text = without_passwords(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _mistake(finding: ErrorDetails, place: Place, origins: Mapping[str, str]) -> Mistake:
    source = source_of(place.key, origins)
    given: object = finding["input"]
    match finding["type"]:
        case "extra_forbidden" if place.section is not None:
            return Mistake(
                place.key, given, f"there is no such key; {suggest(place.key, place.section)}", source
            )
        case "missing":
            return _missing(place, source)
        case "environment_name":
            key = f"{place.key}.{KIND}"
            tag = given.get(KIND, NOT_GIVEN) if isinstance(given, Mapping) else NOT_GIVEN
            return Mistake(key, tag, f"must be one of {names(available())}", source_of(key, origins) or source)
        case "value_error":
            return Mistake(place.key, NOT_GIVEN, str(finding["ctx"]["error"]), source)
        case _ if place.field is not None:
            what = wanted_item(place.field) if place.key.endswith("]") else wanted(place.field)
            return Mistake(place.key, given, f"must be {what}", source)
    return Mistake(place.key, given, finding["msg"], source)


def _missing(place: Place, source: str) -> Mistake:
    if place.field is None:
        return Mistake(place.key, NOT_GIVEN, "must be given", source)
    if "[" in place.key:  # a list that is too short
        return Mistake(place.key, NOT_GIVEN, f"is missing; the list must be {wanted(place.field)}", source)
    meaning = f" ({place.field.description})" if place.field.description else ""
    return Mistake(place.key, NOT_GIVEN, f"must be given: {wanted(place.field)}{meaning}")
