"""Entry point of the `actfirst` command: the list of commands and the one place where errors become messages.

A command lives in a file of its own and is registered here by one line. Nothing heavy is imported before a
command runs, so that `--help` is instant.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from actfirst import __version__
from actfirst.cli import (
    envs,
    evaluate,
    methods,
    play,
    prepare,
    push,
    recipes,
    references,
    sft,
    train,
    verify,
    view,
)
from actfirst.cli.console import print_error
from actfirst.cli.doctor.command import doctor
from actfirst.cli.lab import bench, compare, figures, lab, mini, plan, pocket, report, theory, torture
from actfirst.errors import ActfirstError, ConfigError, TaskError
from actfirst.terminal.visible import say

HELP = """Train multi-turn language agents by on-policy distillation in which reasoning never blocks acting.

\b
A first run, in minutes, on a laptop:
  actfirst train pocket

\b
Look before you leap, and change anything by its dotted key:
  actfirst recipes list
  actfirst train pocket --dry-run
  actfirst train pocket learner.learning_rate=1e-4 rollout.method=vanilla --run runs/vanilla
  actfirst train --run runs/vanilla --resume

\b
Play a task, watch a model, evaluate it, compare methods, see what this machine can do:
  actfirst play pocket
  actfirst play pocket --model pocket:teacher
  actfirst eval pocket:student
  actfirst compare vanilla actfirst
  actfirst verify runs/pocket-1
  actfirst doctor

\b
Look at a run in the browser, also while it trains:
  actfirst view runs/pocket-1

\b
Make a teacher from demonstrations, or everything from random weights to references:
  actfirst sft pocket-prepare --run runs/sft
  actfirst prepare pocket-prepare

\b
Measure what acting first gains and why, and get the paper's tables and figures:
  actfirst theory --fast 0.12 --full 3.2
  actfirst bench rollout --simulated
  actfirst bench quality pocket:student
  actfirst lab pocket
  actfirst report runs/lab-pocket

Every command explains itself: actfirst COMMAND --help
"""

app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("train")(train.train)
app.command("sft")(sft.sft)
app.command("prepare")(prepare.prepare)
app.command("compare")(compare.compare)
app.command("eval")(evaluate.evaluate)
app.command("play")(play.play)
app.command("push")(push.push)
app.command("verify")(verify.verify)
app.command("doctor")(doctor)
app.add_typer(recipes.app, name="recipes")
app.command("methods")(methods.methods)
app.add_typer(references.app, name="references")
app.add_typer(envs.app, name="envs")
app.add_typer(pocket.app, name="pocket")
app.add_typer(mini.app, name="mini")
app.add_typer(bench.app, name="bench")
app.command("theory")(theory.theory)
app.command("plan")(plan.plan)
app.command("lab")(lab.lab)
app.command("report")(report.report)
app.command("figures")(figures.figures)
app.command("view")(view.view)
app.command("torture")(torture.torture)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"actfirst {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `actfirst` itself; its help text is HELP."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Exit code 2 says that the request was wrong, 1 that something failed on the way."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="actfirst")
    except ActfirstError as error:
        print_error(str(error))
        sys.exit(2 if isinstance(error, ConfigError | TaskError) else 1)
