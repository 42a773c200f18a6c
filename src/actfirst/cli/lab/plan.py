"""`actfirst plan`: a recipe on so many GPUs, simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note, print_records, write_result
from actfirst.cli.options import Overrides, ResultFile
from actfirst.cli.progress import progress
from actfirst.terminal.visible import say


def plan(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file.")],
    overrides: Overrides = None,
    gpus: Annotated[
        list[int] | None,
        typer.Option(min=3, help="GPUs in all, shared out as in the recipe; several times for a table."),
    ] = None,
    grow: Annotated[
        bool, typer.Option("--grow", help="Tasks and samples of an update grow with the GPUs.")
    ] = False,
    like: Annotated[
        Path | None, typer.Option(help="A run folder: its episodes, and what its parts took.")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Mean turns of an episode.")] = 15,
    prompt: Annotated[int, typer.Option(min=1, help="Tokens of the first prompt.")] = 900,
    response: Annotated[int, typer.Option(min=1, help="Mean tokens of a full response.")] = 320,
    request_ms: Annotated[
        float | None, typer.Option(min=0.0, help="Milliseconds of the driver for each request.")
    ] = None,
    environment_ms: Annotated[float, typer.Option(min=0.0, help="Milliseconds of a step.")] = 0.0,
    through_host: Annotated[
        bool,
        typer.Option(
            "--through-host", help="Weights go through a file in main memory, not into vLLM's workers."
        ),
    ] = False,
    json_file: ResultFile = None,
) -> None:
    """Simulate a recipe on GPUs: where the time of an update goes, and which part to add next.

    A discrete-event model of engines, teachers, learner, transfers and driver. Without --like the latencies are stated
    ones of an A100, printed with the result; with it they are those of a run that was made.

    \b
    actfirst plan paper/alfworld-1.7b --gpus 8 --gpus 64
    actfirst plan paper/alfworld-4b --gpus 1024 --grow
    actfirst plan pocket runtime.kind=ray runtime.rollout_engines=4 --like runs/pocket-1
    """
    from actfirst.config.load import resolve
    from actfirst.lab.plan.advice import advise, assumed, next_part, rows, to_json
    from actfirst.lab.plan.costs import measured, stated
    from actfirst.lab.plan.work import Shape, episodes_of
    from actfirst.lab.stored import header
    from actfirst.runs.run import open_run

    config = resolve(recipe, overrides or [])
    if like is not None:
        run = open_run(like)
        costs, episodes = measured(config, run), episodes_of(list(run.episodes()))
    else:
        costs = stated(config, direct=not through_host)
        limit = int(config.environment.model_dump().get("turn_limit", 30))
        episodes = Shape(turns, prompt, full=response).episodes(256, limit, config.run.seed)
    request = costs.request if request_ms is None else request_ms / 1e3
    costs = replace(costs, request=request, environment=environment_ms / 1e3)
    found = []
    sizes: list[int | None] = [*gpus] if gpus else [None]
    with progress("sizes") as told:
        for number, size in enumerate(sizes, start=1):
            found.append(advise(config, costs, episodes, size, grow=grow))
            told(number, len(sizes), "")
    print_records(rows(found))
    for one in found:
        say(next_part(one))
    print_note(f"simulated, with these figures: {assumed(costs)}")
    write_result(json_file, {**header("plan"), "advice": to_json(found)})
