"""The environments beside the pocket world: what is installed, what is missing, and how to get it.

Each environment has its own entry at the end; none of them is needed by the default.
"""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from pathlib import Path

from actfirst.cli.doctor import webshop
from actfirst.cli.doctor.findings import Check, Finding, State
from actfirst.cli.doctor.scienceworld import scienceworld
from actfirst.environments.alfworld.textworld_engine import INSTALL, PACKAGES, VERSIONS, installed_versions
from actfirst.environments.scienceworld.java import INSTALL as SCIENCEWORLD_INSTALL

_GAMES = "data/alfworld"
"""Where the paper's recipes look."""

_DOWNLOAD = (
    f"{INSTALL} and run `alfworld-download --data-dir {_GAMES}`, or name a folder of games: "
    "environment.folder=FOLDER"
)


def alfworld() -> Finding:
    """The native engine needs nothing but games; the first one is loaded and begun."""
    from actfirst.environments.alfworld.world import AlfworldWorld

    found = [folder for folder in game_folders() if folder.is_dir()]
    if not found:
        looked = ", ".join(str(folder) for folder in game_folders())
        return Finding("ALFWorld", State.MISSING, f"no games in {looked}", _DOWNLOAD)
    world = AlfworldWorld(found[0])
    counts = ", ".join(f"{split} {len(world.tasks(split))}" for split in world.splits())
    task = world.tasks(world.splits()[0])[0]
    started = time.perf_counter()
    world.open().reset(task)
    took = 1e3 * (time.perf_counter() - started)
    return Finding("ALFWorld", State.OK, f"games in {world.folder} ({counts}); one loads in {took:.0f} ms")


def game_folders() -> list[Path]:
    """Where games may be: where the environment variable says, where the recipes look, where upstream puts them."""
    named = [Path(os.environ["ALFWORLD_DATA"])] if "ALFWORLD_DATA" in os.environ else []
    return [*named, Path(_GAMES), Path("~/.cache/alfworld").expanduser()]


def textworld() -> Finding:
    """The real ALFWorld engine. Looked for, not imported: that takes seconds."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        detail = f'{", ".join(missing)} not installed (for environment.engine = "textworld")'
        return Finding("TextWorld", State.MISSING, detail, INSTALL)
    versions = installed_versions()
    detail = ", ".join(f"{name} {number}" for name, number in versions.items())
    if versions != VERSIONS:
        wanted = f"needed are {', '.join(f'{name} {number}' for name, number in VERSIONS.items())}"
        return Finding("TextWorld", State.WARN, f"{detail}; {wanted}", INSTALL)
    return Finding("TextWorld", State.OK, detail)


def plugins() -> Finding:
    """Third-party environments: each entry point must at least load."""
    from actfirst.environments.entry_points import GROUP, installed_environments

    points = installed_environments()
    for name, point in points.items():
        try:
            point.load()
        except Exception as error:
            detail = f"{name} ({point.value}) does not load: {type(error).__name__}: {error}"
            return Finding("plug-ins", State.WARN, detail, "install the package again, or remove it")
    detail = ", ".join(points) if points else f"none installed (entry points of the group {GROUP})"
    return Finding("plug-ins", State.OK, detail)


CHECKS = (
    Check("ALFWorld", alfworld, _DOWNLOAD, State.WARN),
    Check("TextWorld", textworld, INSTALL, State.WARN),
    Check("ScienceWorld", scienceworld, SCIENCEWORLD_INSTALL, State.WARN),
    *webshop.CHECKS,
    Check("plug-ins", plugins, "remove packages that do not load", State.WARN),
)
