"""Plain folders of ALFWorld game files, whatever their layout: for comparing the two engines and measuring them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from actfirst.environments.alfworld.environment import TURN_LIMIT
from actfirst.environments.alfworld.kind import KIND
from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.alfworld.textworld_engine import require_textworld
from actfirst.environments.alfworld.world import GAME, AlfworldWorld
from actfirst.environments.base import EnvironmentSection
from actfirst.environments.comparing import Contestant
from actfirst.environments.pocket.section import PocketSection
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.registry import open_world
from actfirst.errors import ConfigError, EnvironmentFailure, TaskError
from actfirst.records import Task

EngineName = Literal["native", "textworld"]
SPLIT = "games"


class GameFiles(AlfworldWorld):
    """Every `game.tw-pddl` below a folder; a task's id is the path of its game's folder."""

    def __init__(self, folder: Path, engine: EngineName) -> None:
        if engine == "textworld":
            require_textworld()
        self.folder, self.engine, self.turn_limit = folder, engine, TURN_LIMIT
        self.fingerprint = f"game files in {folder}"

    def splits(self) -> Sequence[str]:
        return (SPLIT,)

    def tasks(self, split: str) -> Sequence[Task]:
        if split != SPLIT:
            raise TaskError(f"game files have no split {split!r}; all are {SPLIT}")
        return self._tasks

    def path(self, task: Task) -> Path:
        path = self.folder / task.id / GAME
        if not path.is_file():
            raise TaskError(f"there is no game {task.id!r} in {self.folder}")
        return path

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        games = sorted(str(path.parent.relative_to(self.folder)) for path in self.folder.rglob(GAME))
        if not games:
            raise EnvironmentFailure(f"no {GAME} below {self.folder}; name a folder that holds games")
        return tuple(Task(game, SPLIT, "game") for game in games)


def spread(tasks: Sequence[Task], count: int, within: str = "") -> list[Task]:
    """`count` tasks at even distances (0: all), of those whose path has the folder `within`."""
    chosen = [task for task in tasks if not within or within in Path(task.id).parts]
    if not count or count >= len(chosen):
        return chosen
    return [chosen[place * len(chosen) // count] for place in range(count)]


@contextmanager
def game_folder(section: EnvironmentSection, count: int = 0) -> Iterator[Path]:
    """The folder of a section's games; of pocket houses, `count` of them are written to a temporary one (0: all)."""
    if isinstance(section, AlfworldSection):
        yield Path(section.folder).expanduser()
    elif isinstance(section, PocketSection):
        world = open_world(section)
        assert isinstance(world, PocketWorld)
        with TemporaryDirectory(prefix="actfirst-games-") as temporary:
            for task in spread([task for split in world.splits() for task in world.tasks(split)], count):
                world.write(task, Path(temporary) / task.split)
            yield Path(temporary)
    else:
        raise ConfigError(f"{section.name} has no ALFWorld games; choose a recipe of pocket or alfworld")


@contextmanager
def both_engines(games: Path | None, python: str, count: int) -> Iterator[tuple[Sequence[Contestant], str]]:
    """Both engines over the same games, the native one first. Where TextWorld is missing, only that one, and not on
    pocket houses, which it plays as the world `pocket` too."""
    engines: dict[EngineName, str] = {"native": "", "textworld": python}
    missing = ""
    try:
        if not python:
            require_textworld()
    except EnvironmentFailure as failure:
        missing = str(failure)
        del engines["textworld"]
        if games is None:
            yield (), missing
            return
    section = PocketSection() if games is None else AlfworldSection(folder=str(games))
    with game_folder(section, count) as folder:
        tasks = tuple(spread(GameFiles(folder, "native").tasks(SPLIT), count))
        what = "ALFWorld" if games else "pocket houses"
        yield [_contestant(what, engine, where, folder, tasks) for engine, where in engines.items()], missing


def _contestant(
    what: str, engine: EngineName, python: str, folder: Path, tasks: tuple[Task, ...]
) -> Contestant:
    hosting = KIND.hosting(AlfworldSection(folder=str(folder), engine=engine))
    return Contestant(
        name=f"{what}, {engine}",
        open_world=partial(GameFiles, folder, engine),
        tasks=tasks,
        turn_limit=TURN_LIMIT,
        per_worker=hosting.per_worker,
        python=python,
        inline=not hosting.processes,
    )
