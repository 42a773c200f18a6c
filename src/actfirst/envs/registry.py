"""From a recipe's environment section to a world. One dict; worlds are imported when they are opened."""

from __future__ import annotations

from collections.abc import Callable

from actfirst.config.models import AlfworldEnvironment, EnvironmentSection, PocketEnvironment
from actfirst.envs.base import World
from actfirst.errors import ConfigError


def _pocket(section: EnvironmentSection) -> World:
    from actfirst.envs.pocket.layout import Size
    from actfirst.envs.pocket.world import PocketWorld

    assert isinstance(section, PocketEnvironment)
    return PocketWorld(
        seed=section.seed,
        size=Size(receptacles=section.receptacles, objects=section.objects),
        train=section.train_tasks,
        seen=section.eval_tasks,
        unseen=section.eval_tasks,
        turn_limit=section.turn_limit,
    )


def _alfworld(section: EnvironmentSection) -> World:
    from pathlib import Path

    from actfirst.envs.alfworld.world import AlfworldWorld

    assert isinstance(section, AlfworldEnvironment)
    return AlfworldWorld(Path(section.folder).expanduser(), turn_limit=section.turn_limit)


_WORLDS: dict[str, Callable[[EnvironmentSection], World]] = {"pocket": _pocket, "alfworld": _alfworld}


def open_world(section: EnvironmentSection) -> World:
    """The world that a section describes."""
    if section.name not in _WORLDS:
        raise ConfigError(
            f"environment.name = {section.name!r} cannot be played by this version; "
            f"available: {', '.join(_WORLDS)}"
        )
    return _WORLDS[section.name](section)
