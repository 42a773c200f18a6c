"""`actfirst mini build`: make the models of alfworld-mini and its like, from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note
from actfirst.cli.options import Overrides, Threads

app = typer.Typer(help="Small models for the real benchmarks.", no_args_is_help=True)


@app.command("build")
def build(
    recipe: Annotated[
        str, typer.Argument(help="alfworld-mini, webshop-mini or scienceworld-mini.", show_default=False)
    ],
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="For student/, teacher/ and build_result.json. Default: mini_models/RECIPE.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = 2,
) -> None:
    """Train the student and the teacher of a recipe from nothing, by RECIPE-base, RECIPE-teacher and RECIPE-student.

    A stopped build is continued. Settings hold for all three.

    \b
    actfirst mini build alfworld-mini environment.folder=data/alfworld
    actfirst train alfworld-mini environment.folder=data/alfworld
    """
    import torch
    from rich.console import Console

    from actfirst.lab.mini_models.build import BuildPlan, build_models
    from actfirst.terminal.sft import SftProgress
    from actfirst.training.sft import SftWatcher

    torch.set_num_threads(threads)
    settings = tuple(overrides or ())
    folder = out or Path("mini_models") / recipe

    def watch() -> SftWatcher:
        return SftProgress(Console())

    build_models(recipe, folder, BuildPlan(settings=settings), print_note, watch)
    print_note(f"written to {folder}")
