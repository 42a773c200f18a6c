"""The end of a training run as a person sees it: result, time, balance, picture, and what to try next."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console
from rich.table import Table

from actfirst.runs.lines import EVALUATION, Summary
from actfirst.runs.run_folder import CONFIG
from actfirst.terminal.words import clock, ledger_in_words, shares_in_words, success_in_words


def conclude(console: Console, summary: Summary, folder: Path | None) -> None:
    """Draw the picture if there is a folder to draw it in, and print the summary."""
    rows = conclusion_rows(summary)
    commands: list[str] = []
    if folder is not None:
        rows.append(("picture", _picture(folder)))
        commands = next_commands(folder)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text)
    console.print()
    console.print(f"{summary.title}: done", style="bold", highlight=False, markup=False)
    console.print(table, highlight=False)
    if commands:
        console.print("\nwhat to try next", style="bold")
        for command in commands:
            console.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)


def conclusion_rows(result: Summary) -> list[tuple[str, str]]:
    """What happened, as named rows."""
    rates = result.success_rate
    stages = {name: seconds for name, seconds in result.seconds_by_stage.items() if name != EVALUATION}
    each = result.training_seconds / max(1, result.updates)
    evaluation = result.seconds_by_stage.get(EVALUATION, 0.0)
    around = result.process_seconds - result.training_seconds - evaluation
    return [
        ("success rate", success_in_words(rates.before, rates.after, rates.teacher) + _measured_on(result)),
        ("training time", f"{clock(result.training_seconds)} for {result.updates} updates ({each:.2f} s each)"),
        ("where it went", shares_in_words(stages)),
        ("evaluation", f"{clock(evaluation)} beside that"),
        (
            "process time",
            f"{clock(result.process_seconds)} from launch to here, evaluation included"
            + (f", and {clock(around)} to load the program" if around >= 0.5 else ""),
        ),
        ("responses", ledger_in_words(result.ledger)),
    ]


def _measured_on(result: Summary) -> str:
    """Says so where the first evaluation of the student was smaller than the last."""
    student = [point for point in result.evaluations if point.who == "student"]
    if not student or student[0].tasks == student[-1].tasks:
        return ""
    return f" (before: {student[0].tasks} tasks, after: {student[-1].tasks})"


def next_commands(folder: Path) -> list[str]:
    """Commands that go on from a finished run. A run's config.toml is a recipe like any other."""
    run, recipe = shlex.quote(str(folder)), shlex.quote(str(folder / CONFIG))
    return [
        f"actfirst view {run}",
        f"actfirst compare vanilla actfirst --recipe {recipe}",
        f"actfirst play {recipe} --model {run}",
        f"actfirst eval {run}",
    ]


def _picture(folder: Path) -> str:
    from actfirst.terminal.pictures import draw_run

    try:
        path = draw_run(folder)
    except OSError as error:  # a full disk must not spoil the end of a run that is safe in its folder
        return f"could not be written: {error}"
    return str(path) if path else "needs two evaluations (evaluation.at_start, evaluation.at_end)"
