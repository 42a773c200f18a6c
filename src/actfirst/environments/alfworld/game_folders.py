"""The ALFWorld game files that a recipe is about, as a folder. Pocket houses are written to a temporary one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from actfirst.config.sections import AlfworldEnvironment, EnvironmentSection, PocketEnvironment
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.registry import open_world
from actfirst.errors import ConfigError


@contextmanager
def game_folder(section: EnvironmentSection, count: int = 0) -> Iterator[Path]:
    """The folder of a section's games; of pocket houses, `count` at even distances (0: all)."""
    if isinstance(section, AlfworldEnvironment):
        yield Path(section.folder).expanduser()
    elif isinstance(section, PocketEnvironment):
        with TemporaryDirectory(prefix="actfirst-games-") as temporary:
            _write(section, Path(temporary), count)
            yield Path(temporary)
    else:
        raise ConfigError(f"{section.name} has no ALFWorld games; choose a recipe of pocket or alfworld")


def _write(section: PocketEnvironment, folder: Path, count: int) -> None:
    world = open_world(section)
    assert isinstance(world, PocketWorld)
    tasks = [task for split in world.splits() for task in world.tasks(split)]
    for place in range(min(count or len(tasks), len(tasks))):
        task = tasks[place * len(tasks) // count if count else place]
        world.write(task, folder / task.split)
