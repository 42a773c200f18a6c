"""Which environments there are: one `EnvironmentKind` each, by name.

Three ways lead here. A folder of this package with a `kind.py` is part of actfirst. An installed package announces a
kind in its metadata:

    [project.entry-points."actfirst.environments"]
    corridor = "corridor:KIND"

A notebook calls `register_environment`. Of equal names, the one that comes first here counts.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import Any

from pydantic_core import PydanticCustomError

from actfirst.environments.base import EnvironmentKind, EnvironmentSection, Hosting, World
from actfirst.errors import ActfirstError, ConfigError, EnvironmentFailure

GROUP = "actfirst.environments"

Kind = EnvironmentKind[Any]
_registered: dict[str, Kind] = {}


def register_environment(kind: Kind) -> Kind:
    """Make an environment known in this process. Worker processes know it if they import the module that does this."""
    if kind.name in built_in_kinds():
        raise ConfigError(f"an environment called {kind.name!r} is part of actfirst; choose another name")
    _registered[kind.name] = kind
    return kind


@cache
def built_in_kinds() -> dict[str, Kind]:
    folders = sorted(
        entry.name for entry in files("actfirst.environments").iterdir() if (entry / "kind.py").is_file()
    )
    kinds: list[Kind] = [import_module(f"actfirst.environments.{name}.kind").KIND for name in folders]
    return {kind.name: kind for kind in kinds}


def installed_environments() -> dict[str, EntryPoint]:
    """The entry points of all installed packages, by name. Nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def available() -> list[str]:
    """The names that `environment.name` may have here."""
    return list(dict.fromkeys([*built_in_kinds(), *_registered, *installed_environments()]))


def find_kind(name: str) -> Kind:
    """The kind of a name. Whatever goes wrong while a package is loaded is the fault of the package, and says so."""
    if kind := built_in_kinds().get(name) or _registered.get(name):
        return kind
    point = installed_environments().get(name)
    if point is None:
        raise ConfigError(
            f"environment.name = {name!r}: no installed package has this entry point of the group "
            f"{GROUP}; install it, or choose one of {', '.join(available())}"
        )
    try:
        found = point.load()
    except Exception as error:
        raise EnvironmentFailure(
            f"the environment {name} ({point.value}) does not load: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, EnvironmentKind):
        raise EnvironmentFailure(f"the environment {name} ({point.value}) is not an EnvironmentKind: {found!r}")
    return found


def kind_of(section: EnvironmentSection) -> Kind:
    return find_kind(section.name)


def read_section(given: object) -> object:
    """The section that a recipe's table describes; pydantic reports whatever is wrong with it."""
    if isinstance(given, EnvironmentSection) or not isinstance(given, dict):
        return given
    name = given.get("name")
    if name not in available():
        raise PydanticCustomError("environment_name", "there is no environment of this name")
    return find_kind(name).section.model_validate(given)


def open_world(section: EnvironmentSection) -> World:
    try:
        world: World = kind_of(section).open(section)
    except ActfirstError:
        raise
    except Exception as error:
        raise EnvironmentFailure(
            f"the environment {section.name} cannot be opened with {section!r}: {type(error).__name__}: {error}"
        ) from error
    return world


def hosting(section: EnvironmentSection) -> Hosting:
    """Where the environments of a section are best played."""
    return kind_of(section).hosting(section)
