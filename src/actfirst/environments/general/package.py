"""A new environment as a package that works at once: the files in `skeleton/`, with its name put in."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from actfirst.environments.registry import available
from actfirst.errors import ConfigError

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MARK = "NAME_OF_WORLD"


def write_package(name: str, target: Path) -> None:
    """Write the package into `target`, which must not exist."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of an environment: use small letters, digits and _")
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in available():
        raise ConfigError(f"{name!r} is taken, by Python or by an environment; choose another name")
    if target.exists():
        raise ConfigError(f"{target} exists; choose another folder with --into")
    general = files("actfirst.environments.general")
    _copy(general / "skeleton", target, name)
    _copy(general / "templates", target / name / "templates", name)


def _copy(source: Traversable, target: Path, name: str) -> None:
    target.mkdir(parents=True)
    for entry in source.iterdir():
        place = target / entry.name.replace(_MARK, name).removesuffix(".txt_")
        if entry.is_dir():
            _copy(entry, place, name)
        else:
            place.write_text(entry.read_text(encoding="utf-8").replace(_MARK, name), encoding="utf-8")
