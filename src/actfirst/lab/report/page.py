"""Writes the report: one self-contained HTML page, and beside it every table as CSV, all of them in one Markdown file,
the figures of all runs with paired differences in one JSON file, and every drawing as PNG and SVG."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from actfirst import __version__
from actfirst.lab.report import figures
from actfirst.lab.report.ablation_table import ablation_table
from actfirst.lab.report.bench_tables import quality_table, rollout_table
from actfirst.lab.report.cells import Number, Table, in_markdown
from actfirst.lab.report.cost_table import cost_table
from actfirst.lab.report.differences import differences_table
from actfirst.lab.report.figures import Figure
from actfirst.lab.report.main_table import main_table
from actfirst.lab.report.recorded import figures_of
from actfirst.lab.report.run_tables import (
    alignment_table,
    curve_table,
    latency_table,
    reach_table,
    throughput_table,
)
from actfirst.lab.report.sources import Sources, find_sources
from actfirst.runs.files import write_atomically, write_json, writing

PAGE = "index.html"
TABLES = "tables.md"
FIGURES = "figures.json"
Item = TypeVar("Item")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Section:
    """A heading with tables and figures."""

    slug: str
    title: str
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...] = ()


@dataclass
class SourceRegister:
    """Numbers the sets of sources, so that every number can link to its own."""

    folder: Path
    groups: dict[tuple[Path, ...], str] = field(default_factory=dict)

    def anchor(self, sources: Sequence[Path]) -> str:
        key = tuple(dict.fromkeys(sources))
        return self.groups.setdefault(key, f"source-{len(self.groups) + 1}")

    def relative(self, path: Path) -> str:
        """The address of a path in the page. It is quoted: a folder may be called `javascript:...`."""
        return quote(os.path.relpath(path.resolve(), self.folder.resolve()))

    def entries(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Anchors with the names and relative addresses of what they stand for."""
        return [
            (anchor, [(path.name, self.relative(path)) for path in paths])
            for paths, anchor in self.groups.items()
        ]


def write_report(paths: Sequence[Path], folder: Path, title: str = "actfirst report") -> Path:
    """Read what lies at `paths`, write the report into `folder`, and return its page."""
    sources = find_sources(paths)
    with writing(folder):
        for name in ("figures", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    sections = make_sections(sources, folder / "figures")
    for section in sections:
        for table in section.tables:
            write_atomically(folder / "tables" / f"{table.slug}.csv", table.to_csv())
        for figure in section.figures:
            if figure.series:
                write_atomically(folder / "figures" / f"{figure.slug}.csv", figure.series)
    write_atomically(folder / TABLES, _markdown(sections, sources, title))
    write_json(folder / FIGURES, figures_of(sources).to_json())
    page = folder / PAGE
    write_atomically(page, render(sections, sources, folder, title))
    return page


def make_sections(sources: Sources, drawings: Path) -> list[Section]:
    """All that the sources have something to say about."""
    settings, rollouts, qualities = sources.settings, sources.rollouts, sources.qualities
    ablations, costs = ablation_table(settings), cost_table(sources.preparations)
    sections = [
        Section("results", "Results", (*_each(main_table, settings), *_each(differences_table, settings))),
        Section("ablation", "Ablations", (ablations,) if ablations else ()),
        Section(
            "time",
            "Success against time",
            (*_each(curve_table, settings), *_each(reach_table, settings)),
            _each(partial(figures.draw_performance, folder=drawings), settings),
        ),
        Section(
            "efficiency",
            "Rollout efficiency",
            _each(rollout_table, rollouts),
            _each(partial(figures.draw_rollout, folder=drawings), rollouts),
        ),
        Section("throughput", "Throughput", _each(throughput_table, settings)),
        Section(
            "quality",
            "Rollout quality",
            _each(quality_table, qualities),
            _each(partial(figures.draw_quality, folder=drawings), qualities),
        ),
        Section(
            "alignment",
            "Reference alignment",
            _each(alignment_table, settings),
            _each(partial(figures.draw_alignment, folder=drawings), settings),
        ),
        Section(
            "stability",
            "Learning from rewards",
            (),
            _each(partial(figures.draw_stability, folder=drawings), settings),
        ),
        Section(
            "utilisation",
            "Utilisation",
            (),
            _each(partial(figures.draw_utilisation, folder=drawings), settings),
        ),
        Section("preparation", "Offline preparation", (costs,) if costs else ()),
        Section("latency", "Latency of turns", _each(latency_table, settings)),
    ]
    return [section for section in sections if section.tables or section.figures]


def _each(make: Callable[[Item, int], Part | None], items: Iterable[Item]) -> tuple[Part, ...]:
    """What is made of some sources, which are counted from 1; None is nothing to say."""
    parts = (make(item, place) for place, item in enumerate(items, start=1))
    return tuple(part for part in parts if part is not None)


def render(sections: Sequence[Section], sources: Sources, folder: Path, title: str) -> str:
    """The page as HTML."""
    from jinja2 import Environment, StrictUndefined

    register = SourceRegister(folder)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(
        anchor=register.anchor, picture=_data_address, is_number=lambda cell: isinstance(cell, Number)
    )
    template = environment.from_string(
        files("actfirst.lab.report").joinpath("page.html.jinja").read_text("utf-8")
    )
    body = template.render(
        title=title,
        sections=sections,
        runs=[run for setting in sources.settings for group in setting.groups for run in group.runs],
        unfinished=sources.unfinished,
        machines=sources.machines,
        simulated=any(result.simulated for _, result in sources.rollouts),
        made=time.strftime("%Y-%m-%d %H:%M"),
        version=__version__,
        register=register,
        relative=register.relative,
    )
    return body + "\n"


def _markdown(sections: Sequence[Section], sources: Sources, title: str) -> str:
    """All tables, for those who keep results in a repository."""
    parts = [f"# {in_markdown(title)}\n"]
    for section in sections:
        if section.tables:
            parts += [f"## {section.title}\n", *(table.to_markdown() for table in section.tables)]
    parts += [
        "## Machines of the stored results\n",
        *(f"- {in_markdown(line)}" for line in sources.machines),
        "",
    ]
    return "\n".join(parts)


def _data_address(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
