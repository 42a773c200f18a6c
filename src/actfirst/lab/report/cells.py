"""Cells and tables of a report. A number cannot be made without the runs or results that it came from."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from actfirst.lab.aggregate import Mark, marks
from actfirst.runs.evaluations import Statistic

NOTHING = "–"
_MARKDOWN = re.compile(r"[\\`*|\[\]]")
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

    def texts(self) -> list[list[str]]:
        return [[_plain(cell) for cell in row] for row in self.rows]

    def to_csv(self) -> str:
        """All cells as text, and in a last column the sources of each row."""
        rows = []
        for row in self.rows:
            named = dict.fromkeys(
                path.name for cell in row if isinstance(cell, Number) for path in cell.sources
            )
            rows.append([*map(_plain, row), " ".join(named)])
        return csv_text([*self.heads, "sources"], rows)

    def to_markdown(self) -> str:
        """The table with its title and note; the best of its rivals is bold, the second best underlined."""
        lines = markdown_rows(
            map(in_markdown, self.heads), [[_marked(cell) for cell in row] for row in self.rows]
        )
        return "\n".join([f"### {in_markdown(self.title)}", "", *lines, "", in_markdown(self.note), ""])


def markdown_rows(heads: Iterable[str], body: Iterable[Sequence[str]]) -> list[str]:
    """A table whose first column holds names and the others numbers. The cells are Markdown."""
    first = list(heads)
    rule = ["---", *["---:"] * (len(first) - 1)]
    return [f"| {' | '.join(row)} |" for row in (first, rule, *body)]


def in_markdown(text: str) -> str:
    """A text that Markdown shows as it is, on one line: no link, no image, no HTML, no further cell."""
    return _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;")


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([heads, *rows])
    return out.getvalue()


def number(
    value: float | Statistic | None,
    digits: int,
    sources: Iterable[Path],
    *,
    deviation: float | None = None,
    before: str = "",
    unit: str = "",
    aside: str = "",
) -> Cell:
    """`12.34 ± 0.56`; a dash where there is nothing. A statistic brings its own deviation."""
    if value is None:
        return Words(NOTHING)
    if isinstance(value, Statistic):
        deviation, value = value.deviation, value.mean
    text = f"{before}{value:,.{digits}f}"
    if deviation is not None:
        text += f" ± {deviation:,.{digits}f}"
    return Number(text + unit, tuple(sources), aside=aside)


def mark_column(
    rows: Sequence[list[Cell]], column: int, values: Sequence[float | None], digits: int, *, higher: bool
) -> None:
    """Mark the best and the second best of one column; `values` are those behind its cells."""
    known = {place: value for place, value in enumerate(values) if value is not None}
    for place, mark in marks(known, digits=digits, higher_is_better=higher).items():
        cell = rows[place][column]
        if isinstance(cell, Number):
            rows[place][column] = replace(cell, mark=mark)


def _marked(cell: Cell) -> str:
    before, after = _MARKED[cell.mark] if isinstance(cell, Number) else ("", "")
    return f"{before}{in_markdown(_plain(cell))}{after}"


def _plain(cell: Cell) -> str:
    if isinstance(cell, Words):
        return cell.text
    return f"{cell.text} {cell.aside}".strip()
