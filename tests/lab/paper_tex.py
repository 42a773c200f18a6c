"""Reads the result tables of the paper from its LaTeX source, where that lies beside the repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "shared" / "paper" / "actfirst-opd.tex"
ABSENT = "the paper's source is not beside the repository (../shared/paper)"
SIZES = ("0.6B", "1.7B", "4B")
METHODS = ("Vanilla OPD", "TCOD-F2B", "TurnOPD", "Ours w/o ID", "ActFirst-OPD (Ours)")


@dataclass(frozen=True)
class Cell:
    """A number as printed, and its mark."""

    value: float
    mark: str
    speedup: float | None = None


def table(label: str) -> list[list[str]]:
    """The cells of all rows of a tabular, as LaTeX."""
    text = SOURCE.read_text(encoding="utf-8")
    start = text.index(f"\\label{{{label}}}")
    body = text[start : text.index("\\end{tabular", start)]
    body = re.sub(r"\\(top|mid|bottom)rule|\\cmidrule\([lr]+\)\{[\d-]+\}", "", body)
    return [[cell.strip() for cell in row.split("&")] for row in re.split(r"\\\\", body)]


def cell(latex: str) -> Cell:
    bold = "boldsymbol" in latex or "\\textbf" in latex
    mark = "best" if bold else "second" if "underline" in latex else ""
    speedup = re.search(r"\\times (\d+\.\d+)", latex)
    number = re.search(r"(\d+\.\d+)", latex)
    assert number, latex
    return Cell(float(number[1]), mark, float(speedup[1]) if speedup else None)


def main_rows(label: str) -> dict[tuple[str, str], list[Cell]]:
    """(student size, method) to the numbers of its row, for the OPD methods."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for row in table(label):
        name = re.sub(r"\\textbf\{(.*)\}", r"\1", row[2]) if len(row) > 3 else ""
        if name in METHODS:
            found[SIZES[len(found) // len(METHODS)], name] = [cell(latex) for latex in row[3:]]
    assert len(found) == len(SIZES) * len(METHODS)
    return found
