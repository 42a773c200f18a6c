"""ALFWorld as published: a folder of game files laid out as `alfworld-download` lays them out.

    <folder>/train|valid_seen|valid_unseen/<task type>-<object>-...-<scene>/<trial>/game.tw-pddl

The folder may also be the one above (`$ALFWORLD_DATA`), which holds it as `json_2.1.x`. Splits and task kinds
come from the folder names; no `traj_data.json` is needed. Games are played by the native engine or by TextWorld.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from actfirst.environments.alfworld.environment import TURN_LIMIT, GameEnvironment
from actfirst.environments.alfworld.game import Game, load_game
from actfirst.environments.alfworld.textworld_engine import TextworldEnvironment
from actfirst.environments.base import Environment
from actfirst.errors import EnvironmentFailure, TaskError
from actfirst.records import Task

GAME = "game.tw-pddl"
SPLITS = ("train", "valid_seen", "valid_unseen")
KINDS = {
    "pick_and_place_simple": "pick",
    "look_at_obj_in_light": "look",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "pick2",
}
"""Task types as folder names spell them, and the short names of the paper's tables."""

_LEFT_OUT = ("movable", "Sliced")
"""Upstream leaves out task folders with these words: their games cannot be finished in text."""

REVISION = 1
"""Counts changes of this engine after which stored references would not replay."""


class AlfworldWorld:
    """All games of a folder. `fingerprint` covers the training games (all games where there are none).

    It does not cover the engine: references that one engine made replay in the other.
    """

    name = "alfworld"

    def __init__(
        self, folder: Path, turn_limit: int = TURN_LIMIT, engine: Literal["native", "textworld"] = "native"
    ) -> None:
        self.folder = _games_folder(folder)
        self.turn_limit = turn_limit
        self.engine = engine
        self._games = {split: games for split in SPLITS if (games := _list_games(self.folder / split))}
        if not self._games:
            raise EnvironmentFailure(
                f"no games under {folder}: expected train/, valid_seen/ or valid_unseen/ with "
                f"<task>/<trial>/{GAME}; run `alfworld-download` or name the folder it filled"
            )
        self.fingerprint = _fingerprint(self._games)

    def splits(self) -> Sequence[str]:
        return tuple(self._games)

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self._games:
            raise TaskError(
                f"alfworld has no split {split!r} in {self.folder}; it has {', '.join(self._games)}"
            )
        return tuple(
            Task(f"alfworld/{split}/{path}", split, KINDS[path.split("-", 1)[0]])
            for path, _ in self._games[split]
        )

    def open(self) -> Environment:
        if self.engine == "textworld":
            return TextworldEnvironment(self.path)
        return GameEnvironment(self.game)

    def game(self, task: Task) -> Game:
        return load_game(self.path(task))

    def path(self, task: Task) -> Path:
        name, _, relative = task.id.partition("/")
        path = self.folder / relative / GAME
        if name != self.name or not path.is_file():
            raise TaskError(f"alfworld has no task {task.id!r} in {self.folder}")
        return path


def _games_folder(folder: Path) -> Path:
    if any((folder / split).is_dir() for split in SPLITS):
        return folder
    inner = sorted(folder.glob("json_2.1.*"))
    return inner[-1] if inner else folder


def _list_games(folder: Path) -> list[tuple[str, int]]:
    """Relative paths `<task>/<trial>` and file sizes, sorted."""
    games: list[tuple[str, int]] = []
    if not folder.is_dir():
        return games
    for task in os.scandir(folder):
        kind = task.name.split("-", 1)[0]
        if kind not in KINDS or any(word in task.name for word in _LEFT_OUT):
            continue
        for trial in os.scandir(task.path):
            try:
                size = os.stat(os.path.join(trial.path, GAME)).st_size
            except (FileNotFoundError, NotADirectoryError):
                continue
            games.append((f"{task.name}/{trial.name}", size))
    return sorted(games)


def _fingerprint(games: dict[str, list[tuple[str, int]]]) -> str:
    covered = {"train": games["train"]} if "train" in games else games
    digest = hashlib.sha256(f"alfworld native {REVISION}\n".encode())
    for split, entries in sorted(covered.items()):
        for path, size in entries:
            digest.update(f"{split}/{path} {size}\n".encode())
    return f"alfworld-{REVISION}-{digest.hexdigest()[:16]}"
