"""Results as tables on a terminal. Files get their own forms (Markdown, JSON) from the results themselves."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from actfirst.evaluate.results import ALL, Evaluation, Metrics
from actfirst.lab.compare import Comparison
from actfirst.lab.compare_table import compare_rows, mean_and_deviation, notes


def print_comparison(console: Console, comparison: Comparison) -> None:
    """One row per quantity, one column per method."""
    head, *body = compare_rows(comparison)
    _print_table(console, head, body)
    for note in notes(comparison):
        console.print(note, style="dim", highlight=False)


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Splits, then task types, then everything."""
    groups = [
        *((f"split {name}", metrics) for name, metrics in evaluation.by_split.items()),
        *((name, metrics) for name, metrics in evaluation.by_kind.items()),
        (ALL, evaluation.overall),
    ]
    head = ["", "tasks", "SR (%)", "score", "rounds"]
    _print_table(console, head, [_metrics_row(name, metrics) for name, metrics in groups])


def _metrics_row(name: str, metrics: Metrics) -> list[str]:
    return [
        name,
        str(metrics.tasks),
        mean_and_deviation(metrics.success_rate, 1),
        mean_and_deviation(metrics.score, 1),
        mean_and_deviation(metrics.rounds, 1),
    ]


def _print_table(console: Console, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=place == 0)
    for row in body:
        table.add_row(*row)
    console.print(table, highlight=False)
