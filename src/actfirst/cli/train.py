"""`actfirst train`: resolve a recipe, check it, and run it, or print what would be run."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import print_note, write_result
from actfirst.cli.options import Overrides, ResultFile
from actfirst.cli.verify import say_faults
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.config.config import Config

RUNS = Path("runs")
_MAY_CHANGE = ("runtime.", "run.deadline", "run.keep_")  # what has no effect on what is learned


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe's name or a .toml file. May be left out with --resume.")
    ] = None,
    overrides: Overrides = None,
    run: Annotated[
        Path | None, typer.Option(help="The run folder. Default: the next free runs/RECIPE-N.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and print the settings, start nothing.")
    ] = False,
    json_file: ResultFile = None,
) -> None:
    """Train a student.

    \b
    actfirst train pocket
    actfirst train pocket run.updates=20 learner.learning_rate=1e-4 --run runs/short
    actfirst train mine.toml models.student=/models/Qwen3-1.7B --dry-run
    actfirst train --run runs/short --resume
    actfirst train --run runs/short --resume run.updates=40     # longer than it was meant to be

    Ctrl-C and SIGTERM store a checkpoint first (exit codes 130 and 143), and so does a run that reaches
    run.deadline (143). A second Ctrl-C ends at once.

    Values are TOML; a bare word is a string. Lists need quotes: 'evaluation.splits=["seen"]'.
    """
    config, folder = (resumed if resume else new)(recipe, overrides or [], run)
    if dry_run:
        say(describe(config, folder), end="")
        refuse_faults(config)
        return
    from actfirst.errors import RunStopped
    from actfirst.terminal.console import Console
    from actfirst.terminal.panel import choose_watcher
    from actfirst.training.open import train as train_there

    print_note(f"run folder: {folder}")
    if resume:
        say_faults(folder)
    try:
        summary = train_there(config, folder, resume=resume, watcher=choose_watcher(Console(), folder))
    except (KeyboardInterrupt, RunStopped) as stopped:
        print_note(f"{stopped or 'stopped'}; continue with: actfirst train --run {folder} --resume")
        raise typer.Exit(stopped.code if isinstance(stopped, RunStopped) else 130) from None
    write_result(json_file, summary.to_json())


def refuse_faults(config: Config) -> None:
    """Raise ConfigError with everything that keeps a run of this configuration from beginning."""
    from actfirst.errors import ConfigError
    from actfirst.training.preflight import faults

    if found := faults(config):
        raise ConfigError("this run cannot begin here:\n" + "\n".join(found))


def describe(config: Config, folder: Path) -> str:
    """The plan of a run as comments above its whole configuration, so that the output is itself a recipe."""
    from actfirst.config.load import dump_toml
    from actfirst.methods.table import METHODS, needs_teacher
    from actfirst.terminal.placement import placement_lines

    evaluation = config.evaluation
    times = {
        "before": evaluation.at_start,
        f"every {evaluation.every} updates": evaluation.every > 0,
        "after": evaluation.at_end,
    }
    moments = [name for name, wanted in times.items() if wanted]
    plan = [
        f"{METHODS[config.rollout.method].title} on {config.environment.name}: "
        f"{config.models.student} learns from {config.models.teacher if needs_teacher(config) else 'rewards'}",
        f"{config.run.updates} updates of {_update_size(config)}, "
        f"{config.rollout.tasks_per_batch} tasks per rollout batch"
        + (f", {config.rollout.group_size} rollouts each" if config.rollout.group_size > 1 else ""),
        f"evaluation on {', '.join(evaluation.splits)}: {', '.join(moments)}" if moments else "no evaluation",
        f"run folder: {folder}",
        *placement_lines(config),
    ]
    return "".join(f"# {line}\n" for line in plan) + "\n" + dump_toml(config)


def _update_size(config: Config) -> str:
    size = config.learner.batch_size
    return (
        f"whole batches in steps of {size} responses" if config.learner.whole_batches else f"{size} responses"
    )


def new(recipe: str | None, overrides: list[str], run: Path | None) -> tuple[Config, Path]:
    """The configuration and the folder of a run that begins."""
    from actfirst.config.load import resolve
    from actfirst.errors import ConfigError

    if recipe is None:
        raise ConfigError(
            "which recipe? `actfirst recipes list` shows them; `actfirst train pocket` is a good start"
        )
    return resolve(recipe, overrides), run or free_folder(recipe)


def resumed(
    recipe: str | None, overrides: list[str], run: Path | None, command: str = "train"
) -> tuple[Config, Path]:
    """The saved configuration counts. The recipe may be repeated or left out. Only where its parts run may change, how
    long it goes on, and how much of it is stored."""
    from actfirst.config.load import differences, resolve
    from actfirst.errors import ConfigError
    from actfirst.runs.run_folder import saved_config

    if run is None:
        raise ConfigError("--resume needs --run with the folder of the run to continue")
    config = resolve(saved_config(run))
    if recipe is None:
        return config, run
    wanted = resolve(saved_config(run), [recipe, *overrides]) if "=" in recipe else resolve(recipe, overrides)
    changed = [key for key in differences(config, wanted) if not key.startswith(_MAY_CHANGE)]
    for who in ("student", "teacher"):  # the run wrote down which commit of the hub's model it has
        now, then = getattr(wanted.models, who), getattr(config.models, who)
        if f"models.{who}" in changed and then.partition("@")[0] == now:
            changed.remove(f"models.{who}")
            wanted = wanted.model_copy(update={"models": wanted.models.model_copy(update={who: then})})
    asked = any(override.startswith("run.updates=") for override in (recipe, *overrides))
    if asked and wanted.run.updates > config.run.updates:  # the number of a recipe alone does not prolong a run
        changed.remove("run.updates")
    if changed:
        raise ConfigError(
            f"the run in {run} was started with other settings of {', '.join(changed)}; resume it as it was "
            f"(actfirst {command} --run {run} --resume), or start a new run with the new settings"
        )
    return wanted, run


def free_folder(recipe: str) -> Path:
    """The next free runs/RECIPE-N."""
    from actfirst.config.recipe_files import short_name

    folders = (RUNS / f"{short_name(recipe)}-{number}" for number in itertools.count(1))
    return next(folder for folder in folders if not folder.exists())
