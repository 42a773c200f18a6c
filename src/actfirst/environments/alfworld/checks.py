"""What `actfirst doctor` looks at: whether there are games, and whether the real engine is installed."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from pathlib import Path

from actfirst.environments.alfworld.textworld_engine import INSTALL, PACKAGES, VERSIONS, installed_versions
from actfirst.environments.findings import Check, Finding, State

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


CHECKS = (
    Check("ALFWorld", alfworld, _DOWNLOAD, State.WARN),
    Check("TextWorld", textworld, INSTALL, State.WARN),
)
