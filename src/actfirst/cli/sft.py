"""`actfirst sft`: supervised fine-tuning on demonstrations, as a run that can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import print_note, write_result
from actfirst.cli.options import Overrides, ResultFile
from actfirst.cli.train import new, resumed
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.config.config import Config


def sft(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe's name or a .toml file. May be left out with --resume.")
    ] = None,
    overrides: Overrides = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run folder. Default: the next free runs/RECIPE-N.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the configuration, print all of it, start nothing.")
    ] = False,
    json_file: ResultFile = None,
) -> None:
    """Fine-tune models.student on the demonstrations that the recipe's section `sft` names.

    \b
    actfirst sft pocket-prepare --run runs/sft
    actfirst sft pocket-prepare 'sft.data=[{kind = "run", path = "runs/pocket-1"}]'
    actfirst sft --run runs/sft --resume
    actfirst eval runs/sft

    Ctrl-C and SIGTERM store a checkpoint first (exit codes 130 and 143). A second Ctrl-C ends at once.
    """
    config, folder = (
        resumed(recipe, overrides or [], run, "sft") if resume else new(recipe, overrides or [], run)
    )
    if dry_run:
        say(describe(config, folder), end="")
        return
    from actfirst.errors import RunStopped
    from actfirst.terminal.console import Console
    from actfirst.terminal.sft import SftProgress
    from actfirst.training.sft import fine_tune

    print_note(f"run folder: {folder}")
    try:
        with SftProgress(Console()) as watcher:
            summary = fine_tune(config, folder, resume=resume, watcher=watcher)
    except (KeyboardInterrupt, RunStopped) as stopped:
        print_note(f"{stopped or 'stopped'}; continue with: actfirst sft --run {folder} --resume")
        raise typer.Exit(stopped.code if isinstance(stopped, RunStopped) else 130) from None
    write_result(json_file, summary.to_json())


def describe(config: Config, folder: Path) -> str:
    """The plan as comments above the whole configuration, so that the output is itself a recipe."""
    from actfirst.config.load import dump_toml

    settings = config.sft
    plan = [
        f"supervised fine-tuning of {config.models.student} on {config.environment.name}",
        f"{settings.steps} steps of {settings.batch_size} examples, learning rate {settings.learning_rate:g}",
        *(f"data: {entry.kind} {entry.path}".rstrip() for entry in settings.data),
        f"run folder: {folder}",
    ]
    return "".join(f"# {line}\n" for line in plan) + "\n" + dump_toml(config)
