"""The pocket world: generated houses behind the environment protocol. No files, no downloads."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from actfirst.environments.alfworld.environment import TURN_LIMIT, GameEnvironment
from actfirst.environments.alfworld.game import Game
from actfirst.environments.pocket.generate import REVISION, check_size, kind_of, make_file, make_game
from actfirst.environments.pocket.layout import Size
from actfirst.errors import TaskError
from actfirst.records import Task

GAME = "game.tw-pddl"


class PocketWorld:
    """Houses of one seed and size. A task depends on its split and index only, not on how many there are."""

    name = "pocket"

    def __init__(
        self,
        seed: int = 0,
        size: Size | None = None,
        train: int = 1200,
        seen: int = 120,
        unseen: int = 120,
        turn_limit: int = TURN_LIMIT,
    ) -> None:
        self.seed = seed
        self.size = size or Size()
        check_size(self.size)
        self.turn_limit = turn_limit
        self._counts = {"train": train, "seen": seen, "unseen": unseen}
        self.fingerprint = f"pocket-{REVISION}-{sha256(f'{seed} {self.size}'.encode()).hexdigest()[:12]}"

    def splits(self) -> Sequence[str]:
        return tuple(self._counts)

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self._counts:
            raise TaskError(f"pocket has no split {split!r}; it has {', '.join(self._counts)}")
        return tuple(
            Task(f"pocket/{split}/{index:06d}-{kind_of(index)}", split, kind_of(index))
            for index in range(self._counts[split])
        )

    def open(self) -> GameEnvironment:
        return GameEnvironment(self.game)

    def game(self, task: Task) -> Game:
        return make_game(self.seed, self.size, task.split, self._index(task))

    def write(self, task: Task, folder: Path) -> Path:
        """Write a task as `game.tw-pddl` into a folder of its own, for TextWorld or for `AlfworldWorld`."""
        path = folder / Path(task.id).name / GAME
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            make_file(self.seed, self.size, task.split, self._index(task)).to_json(), encoding="utf-8"
        )
        return path

    def _index(self, task: Task) -> int:
        number = task.id.rpartition("/")[2].partition("-")[0]
        index = int(number) if number.isdigit() else -1
        if task.id != f"pocket/{task.split}/{index:06d}-{kind_of(index)}" or task.split not in self._counts:
            raise TaskError(f"pocket has no task {task.id!r}")
        return index
