"""`actfirst envs`: which environments there are, and whether two engines of one play alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, print_table, write_result

if TYPE_CHECKING:
    from actfirst.environments.alfworld.verify import GameReport
    from actfirst.environments.base import World

app = typer.Typer(help="List environments and compare their engines.", no_args_is_help=True)


class Verifiable(StrEnum):
    """Environments that two engines play."""

    ALFWORLD = "alfworld"


@app.command("list")
def list_environments() -> None:
    """List the environments that a recipe may name, third-party ones included."""
    from actfirst.environments.entry_points import installed_environments
    from actfirst.environments.registry import available

    third_party = {name: point.value for name, point in installed_environments().items()}
    rows = [(name, third_party.get(name, "part of actfirst")) for name in available()]
    print_table(("environment.name", "where it comes from"), rows)


@app.command("verify")
def verify(
    environment: Annotated[Verifiable, typer.Argument(help="What is verified.")],
    folder: Annotated[
        Path | None, typer.Argument(help="A folder of game files; every game.tw-pddl below it counts.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Instead of a folder: the games of this recipe (pocket or alfworld).")
    ] = None,
    split: Annotated[str, typer.Option(help="Only games below a folder of this name, as in train.")] = "",
    games: Annotated[int, typer.Option(min=0, help="That many, at even distances; 0 for all.")] = 0,
    steps: Annotated[int, typer.Option(min=0, help="Steps of the random walk of each game.")] = 40,
    seed: Annotated[int, typer.Option(help="Seed of the random walks.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="TextWorld processes.")] = 1,
    python: Annotated[
        str, typer.Option(help="An interpreter that has TextWorld and actfirst; default: this one.")
    ] = "",
    log: Annotated[
        Path | None, typer.Option(help="One line per game; a stopped verification goes on from it.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report to this file.", callback=check_result_file),
    ] = None,
) -> None:
    """Play the native engine and TextWorld side by side: walkthroughs, random walks, invalid commands.

    Every difference in text, admissible commands and their order, success and state is reported; exit code 1 if there
    is one. A log also says which engines it is about (the native one's source, alfworld, TextWorld) and is not
    continued with others.

    \b
    actfirst envs verify alfworld data/alfworld --workers 8 --log verify.jsonl
    actfirst envs verify alfworld --recipe pocket --games 30 --python other-venv/bin/python
    """
    from actfirst.environments.alfworld.files import SPLIT, GameFiles
    from actfirst.environments.alfworld.textworld_engine import require_textworld
    from actfirst.environments.alfworld.verify import Walks, engine_versions, spread
    from actfirst.environments.alfworld.verify import verify as compare
    from actfirst.environments.alfworld.verify_log import VerifyLog
    from actfirst.errors import ConfigError

    if not python:
        require_textworld()
    with _games(folder, recipe, games) as found:
        files = GameFiles(found, "native")
        chosen = spread(files.tasks(SPLIT), games, split)
        if not chosen:
            raise ConfigError(
                f"no game below {found} lies in a folder {split}; leave --split out, or correct it"
            )
        settings = {"folder": str(recipe or found), "steps": steps, "seed": seed}
        record = VerifyLog(log, settings, engine_versions(python))
        if record.undated:
            print_note(
                f"{log} does not say with which versions of the engines it was made; if they were others than now, "
                "begin another log"
            )
        left = [task for task in chosen if task.id not in record.done]
        print_note(f"{len(chosen)} games, {len(chosen) - len(left)} of them done before")
        progress = _Progress(len(left))

        def done(report: GameReport) -> None:
            record.add(report)
            progress.game(report)

        walks, oracle = Walks(steps, seed), textworld(found)
        asyncio.run(compare(files, oracle, left, walks, workers=workers, python=python, on_game=done))
    tally = record.tally
    print(
        f"{tally.games} games, {tally.steps} steps: {tally.different} games differ, "
        f"{tally.failed} could not be compared"
    )
    write_result(json_file, tally.to_json())
    if not tally.equal:
        raise typer.Exit(1)


def textworld(folder: Path) -> Callable[[], World]:
    """How a worker opens the real engine over a folder of games."""
    from actfirst.environments.alfworld.files import GameFiles

    return partial(GameFiles, folder, "textworld")


class _Progress:
    """Differences as they are found, and about a line a minute on how far it is."""

    def __init__(self, games: int) -> None:
        self._games = games
        self._done = 0
        self._begun = self._said = time.monotonic()

    def game(self, report: GameReport) -> None:
        self._done += 1
        for found in report.differences:
            print(
                f"{report.game}: {found.walk}, step {found.step}, {found.command!r}: {found.what} differs\n"
                f"  native:    {found.native!r}\n  textworld: {found.textworld!r}"
            )
        if report.error:
            print(f"{report.game}: {report.error}")
        now = time.monotonic()
        if now - self._said >= 30 or self._done == self._games:
            self._said = now
            left = (now - self._begun) / self._done * (self._games - self._done)
            print_note(f"{self._done} of {self._games} games, {left / 60:.0f} minutes left")


def _games(folder: Path | None, recipe: str | None, count: int) -> AbstractContextManager[Path]:
    """The folder that was named, or the one of a recipe."""
    from actfirst.config.load import resolve
    from actfirst.environments.alfworld.game_folders import game_folder
    from actfirst.errors import ConfigError

    if folder is not None and recipe is None:
        return nullcontext(folder.expanduser())
    if recipe is not None and folder is None:
        return game_folder(resolve(recipe).environment, count)
    raise ConfigError("name either a folder of games or a recipe, as in --recipe pocket")
