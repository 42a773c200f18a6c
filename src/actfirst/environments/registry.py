"""From a recipe's environment section to a world. One dict; worlds are imported when they are opened.

A second dict says where the environments of a world are played when the recipe does not (`pool.kind = "auto"`).
A name that neither dict has is the entry point of a third-party environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actfirst.config.sections import (
    AlfworldEnvironment,
    EnvironmentSection,
    PluginEnvironment,
    PocketEnvironment,
    ScienceworldEnvironment,
    WebshopEnvironment,
)
from actfirst.environments.base import World
from actfirst.environments.entry_points import GROUP, installed_environments
from actfirst.errors import ActfirstError, ConfigError, EnvironmentFailure


def _pocket(section: EnvironmentSection) -> World:
    from actfirst.environments.pocket.layout import Size
    from actfirst.environments.pocket.world import PocketWorld

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

    from actfirst.environments.alfworld.world import AlfworldWorld

    assert isinstance(section, AlfworldEnvironment)
    return AlfworldWorld(
        Path(section.folder).expanduser(), turn_limit=section.turn_limit, engine=section.engine
    )


def _webshop(section: EnvironmentSection) -> World:
    from actfirst.environments.webshop.world import open_webshop

    assert isinstance(section, WebshopEnvironment)
    return open_webshop(
        folder=section.folder,
        index=section.index,
        products=section.products,
        goals=section.goals,
        nouns=section.nouns,
        turn_limit=section.turn_limit,
        splits={"train": range(*section.train), "eval": range(*section.eval)},
    )


def _scienceworld(section: EnvironmentSection) -> World:
    from actfirst.environments.scienceworld.world import ScienceworldWorld

    assert isinstance(section, ScienceworldEnvironment)
    return ScienceworldWorld(section.kinds, section.seed, section.turn_limit)


_WORLDS: dict[str, Callable[[EnvironmentSection], World]] = {
    "pocket": _pocket,
    "alfworld": _alfworld,
    "webshop": _webshop,
    "scienceworld": _scienceworld,
}


@dataclass(frozen=True, slots=True)
class Hosting:
    """What suits a world's environments: worker processes or this one, and how many one worker plays.

    `threads` says that environments of one process may be called at the same time; without, one worker plays one.
    """

    processes: bool
    per_worker: int
    threads: bool = True


_INLINE = Hosting(processes=False, per_worker=64)
_ALONE = Hosting(processes=True, per_worker=1)


def _alfworld_hosting(section: EnvironmentSection) -> Hosting:
    assert isinstance(section, AlfworldEnvironment)
    return Hosting(processes=True, per_worker=1, threads=False) if section.engine == "textworld" else _INLINE


def _webshop_hosting(section: EnvironmentSection) -> Hosting:
    from actfirst.environments.webshop.world import fits_in_memory

    assert isinstance(section, WebshopEnvironment)
    # Searching a full catalogue takes long enough to hold others up; its index is shared by all workers.
    return _INLINE if fits_in_memory(section.folder) else Hosting(processes=True, per_worker=16)


_HOSTINGS: dict[str, Callable[[EnvironmentSection], Hosting]] = {
    "pocket": lambda section: _INLINE,
    "alfworld": _alfworld_hosting,
    "webshop": _webshop_hosting,
    # Games of one worker share a Java process, where their steps take turns: a few of them save memory cheaply.
    "scienceworld": lambda section: Hosting(processes=True, per_worker=4),
}


def open_world(section: EnvironmentSection) -> World:
    """The world that a section describes."""
    if section.name in _WORLDS:
        return _WORLDS[section.name](section)
    if isinstance(section, PluginEnvironment):
        return _plugin(section)
    raise ConfigError(
        f"environment.name = {section.name!r} cannot be played by this version; "
        f"available: {', '.join(available())}"
    )


def hosting(section: EnvironmentSection) -> Hosting:
    """Where the environments of a section are best played; of an unknown one, each in a process of its own."""
    return _HOSTINGS[section.name](section) if section.name in _HOSTINGS else _ALONE


def available() -> list[str]:
    """The names that `environment.name` may have here."""
    return list(dict.fromkeys([*_WORLDS, *installed_environments()]))


def _plugin(section: PluginEnvironment) -> World:
    """Call the entry point. What it raises is the plug-in's fault, and says so."""
    point = installed_environments().get(section.name)
    if point is None:
        raise ConfigError(
            f"environment.name = {section.name!r}: no installed package has this entry point of the group "
            f"{GROUP}; install it, or choose one of {', '.join(available())}"
        )
    try:
        world: World = point.load()(dict(section.options))
    except ActfirstError:
        raise
    except Exception as error:
        raise EnvironmentFailure(
            f"the environment {section.name} ({point.value}) cannot be opened with options "
            f"{section.options}: {type(error).__name__}: {error}"
        ) from error
    return world
