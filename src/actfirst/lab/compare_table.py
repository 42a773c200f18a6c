"""A comparison as rows of text, for terminal and Markdown: one row per quantity, one column per method."""

from __future__ import annotations

from collections.abc import Sequence

from actfirst.evaluate.results import Statistic
from actfirst.lab.compare import QUANTITIES, Comparison, MethodResult, Quantity

NOTHING = "–"
_AFTER_TIME = "training_seconds"


def compare_rows(comparison: Comparison) -> list[list[str]]:
    """Heading first; the ratios stand right after the training time that they are made of."""
    rows = [["", *(method.label for method in comparison.methods)]]
    for quantity in QUANTITIES:
        rows.append([quantity.heading, *(_cell(method, quantity) for method in comparison.methods)])
        if quantity.key == _AFTER_TIME:
            rows += _ratio_rows(comparison)
    return rows


def markdown(comparison: Comparison, heading: str) -> str:
    """The table as a Markdown document with what a reader needs to understand it."""
    head, *body = compare_rows(comparison)
    lines = [f"# {heading}", "", _row(head), _row(["---"] + ["---:"] * (len(head) - 1)), *map(_row, body)]
    return "\n".join([*lines, "", *notes(comparison), ""])


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


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def mean_and_deviation(statistic: Statistic, digits: int, unit: str = "") -> str:
    """`12.3 ± 0.4`, without the deviation for a single seed."""
    text = number(statistic.mean, digits)
    if statistic.deviation is not None:
        text += f" ± {number(statistic.deviation, digits)}"
    return text + unit


def _cell(method: MethodResult, quantity: Quantity) -> str:
    statistic = method.quantities.get(quantity.key)
    return NOTHING if statistic is None else mean_and_deviation(statistic, quantity.digits)


def _ratio_rows(comparison: Comparison) -> list[list[str]]:
    methods = comparison.methods
    rows = [["training speedup", *(mean_and_deviation(method.speedup, 2, "×") for method in methods)]]
    if comparison.target is not None:
        rows.append([f"time to {comparison.target:.1f} % SR (s)", *(_reached(method) for method in methods)])
        rows.append(["reached sooner", *(_sooner(method) for method in methods)])
    return rows


def _reached(method: MethodResult) -> str:
    reach, runs = method.reach, len(method.runs)
    if reach is None or reach.arrived == 0:
        return "not reached"
    if reach.arrived < runs:
        return f"≥ {mean_and_deviation(reach.seconds, 1)} ({reach.arrived} of {runs} runs)"
    return mean_and_deviation(reach.seconds, 1)


def _sooner(method: MethodResult) -> str:
    if method.reach is None or method.reach.sooner is None:
        return NOTHING
    bound = "≥ " if method.reach.sooner_is_lower_bound else ""
    return bound + mean_and_deviation(method.reach.sooner, 2, "×")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
