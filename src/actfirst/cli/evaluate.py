"""`actfirst eval`: evaluate a checkpoint by the paper's protocol, with a recipe's evaluation settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, write_result
from actfirst.cli.progress import progress
from actfirst.cli.verify import say_faults
from actfirst.methods.strategies import Strategy

_MEASUREMENTS = {
    Strategy.DIRECT: "acts without reasoning",
    Strategy.GUIDED: "acts without reasoning, towards the reference's next observation",
}


def evaluate(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="A Hugging Face checkpoint folder, a run folder, pocket:student or pocket:teacher."
        ),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace the recipe's.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Whose environment and settings. Default: the run's own, else pocket.")
    ] = None,
    splits: Annotated[str | None, typer.Option(help="Comma-separated, as in seen,unseen.")] = None,
    tasks: Annotated[int | None, typer.Option(min=0, help="Tasks per split; 0 for all.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Comma-separated evaluation seeds, as in 42,43,44.")] = None,
    act: Annotated[
        Strategy, typer.Option(help="direct and guided are for measurements only.")
    ] = Strategy.THINK,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the result to this file.", callback=check_result_file),
    ] = None,
) -> None:
    """Evaluate a checkpoint: success rate, score and rounds by split and by task type.

    \b
    actfirst eval pocket:student
    actfirst eval runs/pocket-1 --splits unseen --tasks 100 --seeds 42,43,44
    actfirst eval pocket:student --act direct
    """
    from rich.console import Console

    from actfirst.config.load import resolve
    from actfirst.lab.stored import EVALUATION, header
    from actfirst.models.folder import find_model, recipe_of
    from actfirst.terminal.tables import print_evaluation
    from actfirst.training.playing import evaluate_model, evaluation_fields

    say_faults(checkpoint)
    folder = find_model(checkpoint, "CHECKPOINT")
    used: str | Path = recipe or recipe_of(checkpoint) or "pocket"
    config = resolve(used, [*(overrides or []), *settings(splits, tasks, seeds)])
    if act in _MEASUREMENTS:
        print_note(f"--act {act}: the model {_MEASUREMENTS[act]}; a measurement, not the protocol")
    with progress("episodes") as told:
        evaluated = evaluate_model(config, folder, lambda done, of: told(done, of, ""), act)
        result = asyncio.run(evaluated)
    print_evaluation(Console(), result)
    if result.errors:
        print_note(f"{result.errors} episodes were cut short by an error and count as they stood")
    fields = evaluation_fields(config, checkpoint, str(used), act.value, result)
    write_result(json_file, {**header(EVALUATION), **fields})


def settings(splits: str | None, tasks: int | None, seeds: str | None) -> list[str]:
    """The options as overrides, so that they are checked like any other setting."""
    overrides = []
    if splits is not None:
        names = ", ".join(f'"{name.strip()}"' for name in splits.split(","))
        overrides.append(f"evaluation.splits=[{names}]")
    if tasks is not None:
        overrides.append(f"evaluation.tasks_per_split={tasks}")
    if seeds is not None:
        overrides.append(f"evaluation.seeds=[{seeds}]")
    return overrides
