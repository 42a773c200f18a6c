"""A comparison as rows of text, for terminal and Markdown: one row per quantity, one column per method."""

from __future__ import annotations

from rich.console import Console

from actfirst.lab.compare import QUANTITIES, Comparison, MethodResult, Quantity
from actfirst.lab.report.cells import NOTHING, in_markdown, markdown_rows
from actfirst.terminal.tables import print_rows


def print_comparison(console: Console, comparison: Comparison) -> None:
    head, *body = compare_rows(comparison)
    print_rows(console, head, body)
    for note in notes(comparison):
        console.print(note, style="dim", highlight=False)


def markdown(comparison: Comparison, heading: str) -> str:
    """The table as a Markdown document with what a reader needs to understand it."""
    head, *body = compare_rows(comparison)
    rows = markdown_rows(map(in_markdown, head), [list(map(in_markdown, row)) for row in body])
    return "\n".join([f"# {in_markdown(heading)}", "", *rows, "", *map(in_markdown, notes(comparison)), ""])


def compare_rows(comparison: Comparison) -> list[list[str]]:
    """Heading first; the ratios stand right after the training time that they are made of."""
    rows = [["", *(method.label for method in comparison.methods)]]
    for quantity in QUANTITIES:
        rows.append([quantity.heading, *(_cell(method, quantity) for method in comparison.methods)])
        if quantity.key == "training_seconds":
            rows += _ratio_rows(comparison)
    return rows


def notes(comparison: Comparison) -> list[str]:
    """How the numbers were made."""
    first = comparison.methods[0].label
    seeds = ", ".join(map(str, comparison.seeds))
    lines = [
        f"Mean ± sample standard deviation over training seeds {seeds}. Ratios are paired by seed "
        f"with {first}. Training time excludes evaluation. Teacher scoring is the time that the teacher computed.",
    ]
    if any(method.reach and method.reach.sooner_is_lower_bound for method in comparison.methods):
        lines.append(
            f"≥: a run of {first} ends below the mean of all and counts with its whole training time, "
            "which is too little."
        )
    return lines


def _cell(method: MethodResult, quantity: Quantity) -> str:
    statistic = method.quantities.get(quantity.key)
    return NOTHING if statistic is None else statistic.text(quantity.digits)


def _ratio_rows(comparison: Comparison) -> list[list[str]]:
    methods = comparison.methods
    rows = [["training speedup", *(method.speedup.text(2, "×") for method in methods)]]
    if comparison.target is not None:
        rows.append([f"time to {comparison.target:.1f} % SR (s)", *(_reached(method) for method in methods)])
        rows.append(["reached sooner", *(_sooner(method) for method in methods)])
    return rows


def _reached(method: MethodResult) -> str:
    reach, runs = method.reach, len(method.runs)
    if reach is None or reach.arrived == 0:
        return "not reached"
    text = reach.seconds.text(1)
    return text if reach.arrived == runs else f"≥ {text} ({reach.arrived} of {runs} runs)"


def _sooner(method: MethodResult) -> str:
    if method.reach is None or method.reach.sooner is None:
        return NOTHING
    bound = "≥ " if method.reach.sooner_is_lower_bound else ""
    return bound + method.reach.sooner.text(2, "×")
