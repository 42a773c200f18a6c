"""Recipes as files: the packaged catalogue, user files, and inheritance through `extends`.

A recipe is a packaged name ("pocket", "paper/base") or the path of a file that ends in `.toml`. The same rule
holds in `extends`, where a path is relative to the file that says it. Nothing here knows which keys are right.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from actfirst.errors import ConfigError
from actfirst.reading import MOST_TOML, Unreadable, decoded, parse_toml, read_bytes

SUFFIX = ".toml"


@dataclass(frozen=True)
class Layer:
    """The tables of one source: a recipe, a file, or the command line."""

    source: str
    values: dict[str, object]


def recipe_names() -> list[str]:
    """The packaged recipes, sorted."""
    return sorted(_packaged())


def recipe_text(name: str) -> str:
    """The text of a packaged recipe, comments included."""
    packaged = _packaged()
    if name not in packaged:
        raise ConfigError(_unknown_recipe(name, packaged))
    return packaged[name].read_text(encoding="utf-8")


def source_text(recipe: str) -> str:
    """The text of a packaged recipe or of a recipe file."""
    return _read(recipe, [])[1]


def short_name(recipe: str) -> str:
    """What to call that which is made with a recipe. The recipe of a run is known by the run's folder."""
    path = Path(recipe).absolute()
    return path.parent.name if path.name == f"config{SUFFIX}" else path.name.removesuffix(SUFFIX)


def recipe_description(name: str) -> str:
    """The first line of a recipe is a comment that describes it."""
    return recipe_text(name).splitlines()[0].removeprefix("#").strip()


def read_layers(recipe: str | Path) -> list[Layer]:
    """The recipe and everything it extends, oldest ancestor first."""
    layers: list[Layer] = []
    seen: list[str] = []
    wanted: str | Path | None = recipe
    while wanted is not None:
        source, text, folder = _read(wanted, seen)
        if source in seen:
            chain = " -> ".join([*seen, source])
            raise ConfigError(f"recipes extend each other in a circle: {chain}; remove one `extends`")
        seen.append(source)
        values = _parse(source, text)
        parent = values.pop("extends", None)
        layers.append(Layer(source, anchored(values, folder)))
        wanted = _parent(parent, source, folder)
    return layers[::-1]


def anchored(values: dict[str, object], folder: Path) -> dict[str, object]:
    """The same tables; a folder of templates that is a relative path starts from `folder`, wherever it is read."""
    environment = values.get("environment")
    if isinstance(environment, dict) and (name := environment.get("templates")) and isinstance(name, str):
        place = os.path.abspath(folder / Path(name).expanduser())
        return {**values, "environment": {**environment, "templates": place}}
    return values


def _packaged() -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    waiting = [("", files("actfirst.config") / "recipes")]
    while waiting:
        prefix, folder = waiting.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                waiting.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.endswith(SUFFIX):
                found[prefix + entry.name.removesuffix(SUFFIX)] = entry
    return found


def _read(recipe: str | Path, seen: list[str]) -> tuple[str, str, Path]:
    """What to call the source, its text, and the folder that its relative paths start from."""
    by = f" (extended by {seen[-1]})" if seen else ""
    if isinstance(recipe, str) and not recipe.endswith(SUFFIX):
        packaged = _packaged()
        if recipe not in packaged:
            raise ConfigError(_unknown_recipe(recipe, packaged) + by)
        return f"recipe {recipe}", packaged[recipe].read_text(encoding="utf-8"), Path()
    path = Path(os.path.normpath(recipe))
    try:
        return str(path), decoded(read_bytes(path, MOST_TOML)), path.parent
    except Unreadable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise ConfigError(
                f"recipe file {path} does not exist{by}; `actfirst recipes list` shows the recipes that ship with "
                "actfirst, `actfirst recipes copy` makes a file of one"
            ) from None
        raise ConfigError(f"recipe file {path} cannot be read{by}: {error}") from error


def _parse(source: str, text: str) -> dict[str, object]:
    try:
        return parse_toml(text)
    except Unreadable as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error


def _parent(parent: object, source: str, folder: Path) -> str | Path | None:
    if parent is None:
        return None
    if not isinstance(parent, str) or not parent:
        raise ConfigError(
            f"extends = {parent!r} in {source}: must be one recipe name or one relative path, as a string"
        )
    if not parent.endswith(SUFFIX):
        return parent
    return Path(os.path.normpath(folder / parent))  # so that a circle through "../" is recognised


def _unknown_recipe(name: str, packaged: dict[str, Traversable]) -> str:
    if os.path.isfile(name + SUFFIX):  # pathlib raises where a name is too long to be one
        return f"there is no recipe {name!r}; for the file, say {name + SUFFIX!r}"
    close = difflib.get_close_matches(name, packaged, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(sorted(packaged))}"
    return f"there is no recipe {name!r}; {hint} (a file is named by its path, ending in {SUFFIX})"
