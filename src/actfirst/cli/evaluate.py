"""`actfirst eval`: evaluate a checkpoint by the paper's protocol, with a recipe's evaluation settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, write_result
from actfirst.cli.options import Seeds
from actfirst.cli.progress import progress
from actfirst.cli.verify import say_faults
from actfirst.methods.strategies import Strategy
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.config.config import Config
    from actfirst.runs.evaluations import Evaluation

_MEASUREMENTS = {
    Strategy.DIRECT: "acts without reasoning",
    Strategy.GUIDED: "acts without reasoning, towards the reference's next observation",
}


def evaluate(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="A Hugging Face checkpoint folder, a run folder, pocket:student or pocket:teacher; or a result "
            "file of this command, with --against."
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
    seeds: Seeds = None,
    act: Annotated[
        Strategy, typer.Option(help="direct and guided are for measurements only.")
    ] = Strategy.THINK,
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare in pairs of tasks with this: a result file of this command, or a checkpoint."
        ),
    ] = None,
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
    actfirst eval runs/pocket-1 --tasks 100 --against pocket:student
    actfirst eval after.json --against before.json
    """
    from actfirst.config.load import resolve
    from actfirst.lab.stored import EVALUATION, header
    from actfirst.models.folder import recipe_of
    from actfirst.terminal.console import Console
    from actfirst.terminal.tables import print_evaluation
    from actfirst.training.playing import evaluation_fields

    used: str | Path = recipe or recipe_of(checkpoint) or "pocket"
    config = resolve(used, [*(overrides or []), *settings(splits, tasks, seeds)])
    if act in _MEASUREMENTS:
        print_note(f"--act {act}: the model {_MEASUREMENTS[act]}; a measurement, not the protocol")
    result = _result(checkpoint, config, act)
    print_evaluation(Console(), result)
    if result.errors:
        print_note(f"{result.errors} episodes were cut short by an error and count as they stood")
    fields = evaluation_fields(config, checkpoint, str(used), act.value, result)
    if against is not None:
        fields["against"] = {"checkpoint": against, **_compare(result, against, config, act)}
    write_result(json_file, {**header(EVALUATION), **fields})


def _result(name: str, config: Config, act: Strategy) -> Evaluation:
    """A stored evaluation, or one that is made now."""
    from actfirst.models.folder import resolve_model
    from actfirst.runs.evaluations import StoredEvaluation
    from actfirst.runs.record import parse, read_object
    from actfirst.training.playing import evaluate_model

    if name.endswith(".json"):
        return parse(read_object(Path(name)), StoredEvaluation, name).result
    say_faults(name)
    folder = resolve_model(name, "CHECKPOINT")
    with progress("episodes") as told:
        return asyncio.run(evaluate_model(config, folder, lambda done, of: told(done, of, ""), act))


def _compare(result: Evaluation, against: str, config: Config, act: Strategy) -> dict[str, object]:
    """Print how an evaluation stands against another, over all tasks and by split; returns the same as JSON."""
    from actfirst.errors import ConfigError
    from actfirst.evaluate.paired import compare

    other = _result(against, config, act)
    worlds = [one.world.fingerprint if one.world else "" for one in (result, other)]
    if worlds[0] != worlds[1]:
        raise ConfigError(
            f"{against} was evaluated in another world (fingerprints {worlds[0] or 'unknown'} and "
            f"{worlds[1] or 'unknown'}): data or rules differ, so tasks are not the same; evaluate both again"
        )
    found = {"all": compare(result.outcomes, other.outcomes)}
    for split in sorted({outcome.split for outcome in result.outcomes}):
        ours, theirs = ([o for o in one.outcomes if o.split == split] for one in (result, other))
        if theirs:
            found[split] = compare(ours, theirs)
    say(f"\nagainst {against}:")
    for name, comparison in found.items():
        say(f"  {name}: {comparison.text()}")
    if found["all"].unpaired:
        print_note(
            f"{found['all'].unpaired} outcomes have no counterpart in the other evaluation and do not count"
        )
    return {name: comparison.to_json() for name, comparison in found.items()}


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
