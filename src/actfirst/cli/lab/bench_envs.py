"""`actfirst bench envs`: steps per second and memory of environments, and two engines of one side by side."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import print_note, print_records, read_counts, write_result
from actfirst.cli.options import Python, ResultFile
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.config.config import Config
    from actfirst.environments.comparing import Contestant
    from actfirst.lab.bench_envs import Ratio, Throughput

_TASKS = 24


def envs(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE [KEY=VALUE]...]...", help="Recipes, each with settings of its own."),
    ] = None,
    games: Annotated[
        Path | None, typer.Option("--folder", help="Games for both engines. Default: pocket houses.")
    ] = None,
    python: Python = "",
    workers: Annotated[str, typer.Option("--worker-counts", help="Worker counts, comma-separated.")] = "1,2,4",
    seconds: Annotated[float, typer.Option(min=0.1, help="Time of each measurement.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Alternating rounds of the two engines.")] = 5,
    json_file: ResultFile = None,
) -> None:
    """Measure environments: steps per second and memory by worker count, our engine against the real one.

    Random walks over training tasks, by default of all environments that need no data and whose simulator is installed.
    A worker process plays as many environments at once as it would in training ("each plays"). Worlds that training
    plays in its own process are measured there as well.

    Steps per second are of all workers together, resets included. ms/step and ms/reset are what one episode waits,
    also for other environments of its worker. MB is the memory of one worker with everything that it started.

    Two engines of one environment walk the same games and are compared with each other where the real one is
    installed, here or in the interpreter of --python.

    \b
    actfirst bench envs --json envs.json
    actfirst bench envs pocket pocket environment.receptacles=[20,30] --worker-counts 1,2,4,8 --seconds 20
    """
    from actfirst.environments.registry import built_in_kinds
    from actfirst.lab.bench_envs import to_json

    counts = list(read_counts(workers, "--worker-counts"))
    with ExitStack() as stack:
        worlds = _worlds(recipes or _default_recipes())
        rivals: list[Contestant] = []
        for kind in built_in_kinds().values():
            if kind.comparing is not None:
                engines, missing = stack.enter_context(kind.comparing.engines(games, python, _TASKS))
                rivals += map(_as_in_training, engines)
                if missing:
                    print_note(f"the two engines of {kind.name} are not compared: {missing}")
        lines, compared = asyncio.run(_measure(worlds, rivals, counts, seconds, rounds))
    _show(lines, compared)
    write_result(json_file, to_json(lines, compared))


def _default_recipes() -> list[str]:
    """The sample recipes of all environments whose simulators are installed."""
    from actfirst.config.load import resolve
    from actfirst.environments.registry import built_in_kinds
    from actfirst.errors import EnvironmentFailure

    found = []
    for kind in built_in_kinds().values():
        if kind.sample:
            try:
                kind.require(resolve(kind.sample).environment)
            except EnvironmentFailure as missing:
                print_note(f"{kind.name} is not measured: {missing}")
            else:
                found.append(kind.sample)
    return found


def _worlds(arguments: list[str]) -> list[Contestant]:
    """Recipes, each followed by the settings that replace its own."""
    from actfirst.config.load import resolve
    from actfirst.errors import ConfigError

    asked: list[list[str]] = []
    for argument in arguments:
        if "=" not in argument:
            asked.append([argument])
        elif asked:
            asked[-1].append(argument)
        else:
            raise ConfigError(f"{argument} stands before any recipe; name the recipe first")
    return [_world(" ".join(words), resolve(words[0], words[1:])) for words in asked]


def _world(name: str, config: Config) -> Contestant:
    """The environment of a recipe."""
    from actfirst.environments.comparing import Contestant
    from actfirst.environments.registry import kind_of, open_world

    section, kind = config.environment, kind_of(config.environment)
    best, world = kind.hosting(section), open_world(section)
    return Contestant(
        name=name,
        open_world=partial(open_world, section),
        tasks=tuple(world.tasks(world.splits()[0])[:_TASKS]),
        turn_limit=world.turn_limit,
        # A batch of fewer tasks leaves places of a worker empty.
        per_worker=min(config.pool.environments_per_worker or best.per_worker, config.rollout.tasks_per_batch),
        python=config.pool.python,
        inline=not best.processes,
        walk=kind.walk,
    )


def _as_in_training(engine: Contestant) -> Contestant:
    from actfirst.config.sections import RolloutSection

    return replace(engine, per_worker=min(engine.per_worker, RolloutSection().tasks_per_batch))


async def _measure(
    worlds: list[Contestant], engines: list[Contestant], counts: list[int], seconds: float, rounds: int
) -> tuple[list[Throughput], Ratio | None]:
    from actfirst.lab.bench_envs import ratio, throughput

    lines = []
    for contestant in [*worlds, *engines]:
        for count in [0, *counts] if contestant.inline else counts:
            print_note(f"{contestant.name}: {count or 'no'} workers")
            lines.append(await throughput(contestant, count, seconds))
    if len(engines) < 2:
        return lines, None
    native, real = engines
    print_note(f"{native.name} against {real.name}: {rounds} rounds")
    return lines, await ratio(native, real, rounds, seconds)


def _show(lines: list[Throughput], compared: Ratio | None) -> None:
    print_records(
        {
            "environment": line.name,
            "workers": str(line.workers or "this process"),
            "each plays": str(line.per_worker),
            "steps/s": f"{line.steps_per_second:.1f}",
            "ms/step": f"{line.step_ms:.3f}",
            "ms/reset": f"{line.reset_ms:.2f}",
            "MB/worker": f"{line.worker_megabytes:.0f}" if line.worker_megabytes is not None else "",
        }
        for line in lines
    )
    if compared is not None:
        say(
            f"\none step inside its process, {compared.rounds} alternating rounds, median (least to most):\n"
            f"  {compared.fast}: {compared.fast_ms.text(4)} ms of processor time\n"
            f"  {compared.slow}: {compared.slow_ms.text(1)} ms of processor time\n"
            f"  ratio {compared.by_processor.text(0)} by processor time, {compared.by_clock.text(0)} by the clock"
        )
