"""A plain folder of ALFWorld game files as a world, whatever its layout: for comparing engines and measuring them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from actfirst.environments.alfworld.environment import TURN_LIMIT, GameEnvironment
from actfirst.environments.alfworld.game import load_game
from actfirst.environments.alfworld.textworld_engine import TextworldEnvironment, require_textworld
from actfirst.environments.alfworld.world import GAME
from actfirst.environments.base import Environment
from actfirst.errors import EnvironmentFailure, TaskError
from actfirst.records import Task

EngineName = Literal["native", "textworld"]
SPLIT = "games"


class GameFiles:
    """Every `game.tw-pddl` below a folder; a task's id is the path of its game's folder."""

    name = "alfworld"
    rules = "alfworld"
    turn_limit = TURN_LIMIT

    def __init__(self, folder: Path, engine: EngineName) -> None:
        if engine == "textworld":
            require_textworld()
        self.folder = folder
        self.engine = engine
        self.fingerprint = f"game files in {folder}"

    def splits(self) -> Sequence[str]:
        return (SPLIT,)

    def tasks(self, split: str) -> Sequence[Task]:
        if split != SPLIT:
            raise TaskError(f"game files have no split {split!r}; all are {SPLIT}")
        return self._tasks

    def open(self) -> Environment:
        if self.engine == "textworld":
            return TextworldEnvironment(self.path)
        return GameEnvironment(lambda task: load_game(self.path(task)))

    def path(self, task: Task) -> Path:
        """The file of a task."""
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
