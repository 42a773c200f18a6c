"""Cells and tables of a report. A number cannot be made without the runs or results that it came from."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from actfirst.lab.aggregate import Mark

NOTHING = "–"
_MARKED = {Mark.BEST: ("**", "**"), Mark.SECOND: ("<ins>", "</ins>"), Mark.NONE: ("", "")}


@dataclass(frozen=True, slots=True)
class Words:
    """A cell that holds no measurement."""

    text: str


@dataclass(frozen=True, slots=True)
class Number:
    """A measured number as shown, where it came from, and how it stands among its rivals."""

    text: str
    sources: tuple[Path, ...]
    mark: Mark = Mark.NONE
    aside: str = ""

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError(f"the number {self.text} has no run that it came from")


Cell = Words | Number


@dataclass(frozen=True)
class Table:
    """One table: rows of cells under headings, and what a reader must know of them."""

    slug: str
    title: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    rules: tuple[int, ...] = ()
    """Rows above which a line is drawn."""

    def to_csv(self) -> str:
        """All cells as text, and in a last column the sources of each row."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*self.heads, "sources"])
        for row in self.rows:
            named = dict.fromkeys(
                path.name for cell in row if isinstance(cell, Number) for path in cell.sources
            )
            writer.writerow([*(_plain(cell) for cell in row), " ".join(named)])
        return out.getvalue()

    def to_markdown(self) -> str:
        """The table with its title and note; the best of its rivals is bold, the second best underlined."""
        lines = [_row(self.heads), _row(["---", *["---:"] * (len(self.heads) - 1)])]
        lines += [_row([_marked(cell) for cell in row]) for row in self.rows]
        return "\n".join([f"### {self.title}", "", *lines, "", self.note, ""])


def number(
    value: float | None,
    digits: int,
    sources: Iterable[Path],
    *,
    deviation: float | None = None,
    before: str = "",
    unit: str = "",
    aside: str = "",
) -> Cell:
    """`12.34 ± 0.56`; a dash where there is nothing."""
    if value is None:
        return Words(NOTHING)
    text = f"{before}{value:,.{digits}f}"
    if deviation is not None:
        text += f" ± {deviation:,.{digits}f}"
    return Number(text + unit, tuple(sources), aside=aside)


def mark_column(rows: Sequence[list[Cell]], column: int, found: Mapping[int, Mark]) -> None:
    """Set the marks of one column; `found` has them by row."""
    for place, row in enumerate(rows):
        cell = row[column]
        if isinstance(cell, Number):
            row[column] = replace(cell, mark=found.get(place, Mark.NONE))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _marked(cell: Cell) -> str:
    before, after = _MARKED[cell.mark] if isinstance(cell, Number) else ("", "")
    return f"{before}{_plain(cell)}{after}"


def _plain(cell: Cell) -> str:
    if isinstance(cell, Words):
        return cell.text
    return f"{cell.text} {cell.aside}".strip()
