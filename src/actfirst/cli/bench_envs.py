"""`actfirst bench envs`: steps per second and memory of environments, and the two ALFWorld engines side by side."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, print_table, read_counts, write_result

if TYPE_CHECKING:
    from actfirst.measure.bench_envs import Contestant, Ratio, Spread, Throughput

_TASKS = 24


def envs(
    recipes: Annotated[
        list[str] | None, typer.Argument(help="Recipes whose environments are measured. Default: pocket.")
    ] = None,
    games: Annotated[
        Path | None, typer.Option(help="ALFWorld games for both engines. Default: pocket houses.")
    ] = None,
    python: Annotated[
        str, typer.Option(help="An interpreter that has TextWorld and actfirst; default: this one.")
    ] = "",
    workers: Annotated[str, typer.Option(help="Worker counts, comma-separated.")] = "1,2,4",
    seconds: Annotated[float, typer.Option(min=0.1, help="Time of each measurement.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Alternating rounds of the two engines.")] = 5,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the result to this file.", callback=check_result_file),
    ] = None,
) -> None:
    """Measure environments: steps per second and memory by worker count, native engine against TextWorld.

    Without TextWorld the two engines are not compared.

    \b
    actfirst bench envs --json envs.json
    actfirst bench envs pocket paper/scienceworld-0.6b --games data/alfworld --python other-venv/bin/python
    """
    from actfirst.measure.bench_envs import to_json

    counts = list(read_counts(workers, "--workers"))
    with ExitStack() as stack:
        worlds = [_world(recipe) for recipe in recipes or ["pocket"]]
        engines = _engines(stack, games, python)
        lines, compared = asyncio.run(_measure(worlds, engines, counts, seconds, rounds))
    _show(lines, compared)
    write_result(json_file, to_json(lines, compared))


def _world(recipe: str) -> tuple[Contestant, bool]:
    """The environment of a recipe, and whether it is usually played in this process."""
    from actfirst.config.load import resolve
    from actfirst.envs.registry import hosting, open_world
    from actfirst.measure.bench_envs import Contestant

    config = resolve(recipe)
    section = config.environment
    world = open_world(section)
    tasks = tuple(world.tasks(world.splits()[0])[:_TASKS])
    opener = partial(open_world, section)
    return Contestant(world.name, opener, tasks, world.turn_limit, config.pool.python), not hosting(
        section
    ).processes


def _engines(stack: ExitStack, games: Path | None, python: str) -> list[Contestant]:
    """Both ALFWorld engines over the same games, the native one first; only that one where TextWorld is missing."""
    from actfirst.config.models import PocketEnvironment
    from actfirst.envs.alfworld.files import SPLIT, EngineName, GameFiles
    from actfirst.envs.alfworld.textworld_engine import require_textworld
    from actfirst.errors import EnvironmentFailure
    from actfirst.measure.bench_envs import Contestant
    from actfirst.measure.game_folders import game_folder
    from actfirst.measure.verify_alfworld import spread

    try:
        if not python:
            require_textworld()
    except EnvironmentFailure as missing:
        print_note(f"the two ALFWorld engines are not compared: {missing}")
        return []
    folder = games.expanduser() if games else stack.enter_context(game_folder(PocketEnvironment(), _TASKS))
    tasks = tuple(spread(GameFiles(folder, "native").tasks(SPLIT), _TASKS))
    what = "ALFWorld" if games else "pocket houses"
    pairs: tuple[tuple[EngineName, str], ...] = (("native", ""), ("textworld", python))
    return [
        Contestant(f"{what}, {engine}", partial(GameFiles, folder, engine), tasks, GameFiles.turn_limit, where)
        for engine, where in pairs
    ]


async def _measure(
    worlds: list[tuple[Contestant, bool]],
    engines: list[Contestant],
    counts: list[int],
    seconds: float,
    rounds: int,
) -> tuple[list[Throughput], Ratio | None]:
    from actfirst.measure.bench_envs import ratio, throughput

    lines = []
    for contestant, inline in [*worlds, *((engine, False) for engine in engines)]:
        for count in [0, *counts] if inline else counts:
            print_note(f"{contestant.name}: {count or 'no'} workers")
            lines.append(await throughput(contestant, count, seconds))
    if not engines:
        return lines, None
    print_note(f"{engines[0].name} against {engines[1].name}: {rounds} rounds")
    return lines, await ratio(engines[0], engines[1], rounds, seconds)


def _show(lines: list[Throughput], compared: Ratio | None) -> None:
    columns = ("environment", "workers", "steps/s", "ms/step", "ms/reset", "MB/worker")
    rows = [
        (
            line.name,
            str(line.workers or "this process"),
            f"{line.steps_per_second:.1f}",
            f"{line.step_ms:.3f}",
            f"{line.reset_ms:.2f}",
            f"{line.worker_megabytes:.0f}" if line.worker_megabytes is not None else "",
        )
        for line in lines
    ]
    print_table(columns, rows)
    if compared is not None:
        print(
            f"\none step inside its process, {compared.rounds} alternating rounds, median (least to most):\n"
            f"  {compared.fast}: {_spread(compared.fast_ms, 4)} ms of processor time\n"
            f"  {compared.slow}: {_spread(compared.slow_ms, 1)} ms of processor time\n"
            f"  ratio {_spread(compared.by_processor, 0)} by processor time, "
            f"{_spread(compared.by_clock, 0)} by the clock"
        )


def _spread(spread: Spread, digits: int) -> str:
    return f"{spread.median:.{digits}f} ({spread.least:.{digits}f} to {spread.most:.{digits}f})"
