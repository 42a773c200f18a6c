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
    from actfirst.config.sections import Config
    from actfirst.lab.bench_envs import Contestant, Ratio, Throughput
    from actfirst.lab.spread import Spread

_TASKS = 24


def envs(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Recipes whose environments are measured. Default: pocket, webshop-sample and, where the simulator "
            "is installed, scienceworld-small."
        ),
    ] = None,
    games: Annotated[
        Path | None, typer.Option(help="ALFWorld games for both engines. Default: pocket houses.")
    ] = None,
    products: Annotated[
        Path | None, typer.Option(help="A folder of WebShop's catalogue files, measured too.")
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

    Random walks over training tasks. A worker process plays as many
    environments at once as it would in training ("each plays": four games of
    ScienceWorld share a Java process, TextWorld bears one). Worlds that
    training plays in its own process are measured there as well.

    Steps per second are of all workers together, resets included. ms/step and
    ms/reset are what one episode waits, also for other environments of its
    worker. MB is the memory of one worker with everything that it started.

    The two ALFWorld engines walk the same games and are compared with each
    other where TextWorld is installed, here or in the interpreter of --python.

    \b
    actfirst bench envs --json envs.json
    actfirst bench envs --games data/alfworld --products data/webshop --python other-venv/bin/python
    actfirst bench envs paper/scienceworld-0.6b --workers 1,2,4,8 --seconds 20
    """
    from actfirst.config.load import resolve
    from actfirst.lab.bench_envs import to_json

    counts = list(read_counts(workers, "--workers"))
    with ExitStack() as stack:
        worlds = [_world(recipe, resolve(recipe)) for recipe in recipes or _default_recipes()]
        if products:
            shop = resolve("webshop-sample", [f"environment.folder={products.expanduser().resolve()}"])
            worlds.append(_world(f"webshop, {products.name}", shop))
        engines = _engines(stack, games, python)
        lines, compared = asyncio.run(_measure(worlds, engines, counts, seconds, rounds))
    _show(lines, compared)
    write_result(json_file, to_json(lines, compared))


def _default_recipes() -> list[str]:
    from actfirst.environments.scienceworld.java import require_scienceworld
    from actfirst.errors import EnvironmentFailure

    found = ["pocket", "webshop-sample"]
    try:
        require_scienceworld()
    except EnvironmentFailure as missing:
        print_note(f"ScienceWorld is not measured: {missing}")
        return found
    return [*found, "scienceworld-small"]


def _world(name: str, config: Config) -> tuple[Contestant, bool]:
    """The environment of a recipe, and whether it is usually played in this process."""
    from actfirst.environments.registry import hosting, open_world
    from actfirst.lab.bench_envs import Contestant

    section, best = config.environment, hosting(config.environment)
    world = open_world(section)
    tasks = tuple(world.tasks(world.splits()[0])[:_TASKS])
    # A batch of fewer tasks leaves places of a worker empty.
    each = min(config.pool.environments_per_worker or best.per_worker, config.rollout.tasks_per_batch)
    opener = partial(open_world, section)
    contestant = Contestant(name, opener, tasks, world.turn_limit, each, config.pool.python)
    return contestant, not best.processes


def _engines(stack: ExitStack, games: Path | None, python: str) -> list[tuple[Contestant, bool]]:
    """Both ALFWorld engines over the same games, the native one first. Where TextWorld is missing, only that one, and
    not on pocket houses, which it plays as the world `pocket` too."""
    from actfirst.config.sections import AlfworldEnvironment, PocketEnvironment, RolloutSection
    from actfirst.environments.alfworld.files import SPLIT, EngineName, GameFiles
    from actfirst.environments.alfworld.game_folders import game_folder
    from actfirst.environments.alfworld.textworld_engine import require_textworld
    from actfirst.environments.alfworld.verify import spread
    from actfirst.environments.registry import hosting
    from actfirst.errors import EnvironmentFailure
    from actfirst.lab.bench_envs import Contestant

    engines: dict[EngineName, str] = {"native": "", "textworld": python}
    try:
        if not python:
            require_textworld()
    except EnvironmentFailure as missing:
        print_note(f"the two ALFWorld engines are not compared: {missing}")
        del engines["textworld"]
        if games is None:
            return []
    folder = games.expanduser() if games else stack.enter_context(game_folder(PocketEnvironment(), _TASKS))
    tasks = tuple(spread(GameFiles(folder, "native").tasks(SPLIT), _TASKS))
    what = "ALFWorld" if games else "pocket houses"
    found = []
    for engine, where in engines.items():
        best = hosting(AlfworldEnvironment(folder=str(folder), engine=engine))
        each = min(best.per_worker, RolloutSection().tasks_per_batch)
        opener = partial(GameFiles, folder, engine)
        contestant = Contestant(f"{what}, {engine}", opener, tasks, GameFiles.turn_limit, each, where)
        found.append((contestant, not best.processes))
    return found


async def _measure(
    worlds: list[tuple[Contestant, bool]],
    engines: list[tuple[Contestant, bool]],
    counts: list[int],
    seconds: float,
    rounds: int,
) -> tuple[list[Throughput], Ratio | None]:
    from actfirst.lab.bench_envs import ratio, throughput

    lines = []
    for contestant, inline in [*worlds, *engines]:
        for count in [0, *counts] if inline else counts:
            print_note(f"{contestant.name}: {count or 'no'} workers")
            lines.append(await throughput(contestant, count, seconds))
    if len(engines) < 2:
        return lines, None
    (native, _), (real, _) = engines
    print_note(f"{native.name} against {real.name}: {rounds} rounds")
    return lines, await ratio(native, real, rounds, seconds)


def _show(lines: list[Throughput], compared: Ratio | None) -> None:
    columns = ("environment", "workers", "each plays", "steps/s", "ms/step", "ms/reset", "MB/worker")
    rows = [
        (
            line.name,
            str(line.workers or "this process"),
            str(line.per_worker),
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
