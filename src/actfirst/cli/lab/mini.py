"""`actfirst mini build`: make the models of alfworld-mini again, from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note
from actfirst.cli.options import Overrides, Threads

app = typer.Typer(help="The small models for the real ALFWorld games.", no_args_is_help=True)


@app.command("build")
def build(
    games: Annotated[str, typer.Argument(help="The folder with the games: train/ is needed.")],
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="For student/, teacher/ and build_result.json.")] = Path(
        "mini_models"
    ),
    threads: Threads = 2,
) -> None:
    """Train the student and the teacher of alfworld-mini from nothing. A stopped build is continued.

    \b
    actfirst mini build data/alfworld --out mini_models
    actfirst train alfworld-mini models.student=mini_models/student models.teacher=mini_models/teacher
    """
    import torch
    from rich.console import Console

    from actfirst.lab.mini_models.build import BuildPlan, build_models
    from actfirst.terminal.sft import SftProgress
    from actfirst.training.sft import SftWatcher

    torch.set_num_threads(threads)
    plan = BuildPlan(settings=tuple(overrides or ()))

    def watch() -> SftWatcher:
        return SftProgress(Console())

    build_models(out, games, plan, print_note, watch)
    print_note(f"written to {out}")
