"""Results as tables on a terminal. Files get their own forms (Markdown, JSON) from the results themselves."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from actfirst.runs.evaluations import Evaluation


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Splits, then task types, then everything."""
    groups = {f"split {name}": metrics for name, metrics in evaluation.by_split.items()}
    rows = [
        [name, str(one.tasks), one.success_rate.text(1), one.score.text(1), one.rounds.text(1)]
        for name, one in (*groups.items(), *evaluation.by_kind.items(), ("all", evaluation.overall))
    ]
    print_rows(console, ["", "tasks", "SR (%)", "score", "rounds"], rows)


def print_rows(console: Console, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Names on the left, numbers to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=place == 0)
    for row in body:
        table.add_row(*row)
    console.print(table, highlight=False)
