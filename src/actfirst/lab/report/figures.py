"""The figures of a report. Every curve is drawn from the same records as the tables.

Colours are Okabe and Ito's, which people of all kinds of colour vision tell apart; a method keeps its colour through
all figures, and simulated figures say so in their title.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.errors import RunFolderError
from actfirst.lab.alignment_rates import RATES, alignment_over_updates
from actfirst.lab.compare import MethodRuns, spread_over_time
from actfirst.lab.report.bench_tables import said, simulated_mark
from actfirst.lab.report.cells import csv_text
from actfirst.lab.report.run_tables import early_window
from actfirst.lab.report.sources import Setting
from actfirst.lab.results import QualityResult
from actfirst.lab.rollout.result import RolloutPoint, RolloutResult
from actfirst.lab.throughput import times_of
from actfirst.methods.strategies import Strategy
from actfirst.methods.table import METHODS
from actfirst.runs.lines import UpdateLine
from actfirst.runs.run import Run
from actfirst.terminal.pictures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

_PALETTE = ("#0072B2", "#E69F00", "#56B4E9", "#CC79A7", "#D55E00", "#009E73", "#7A7A00", "#8C564B", "#000000")
_DASHES = ((None, None), (6, 2), (2, 2), (8, 2, 2, 2))
_RUN = ("method", "run", "seed")
SMOOTHED = 5
UTILISATION_PARTS = ("engine", "learner", "other", "workers")
_STABILITY = {
    "success": "rollout success (%)",
    "entropy": "entropy (nats per token)",
    "clip_fraction": "clipped tokens (share)",
    "anchor_kl": "KL to the start (nats)",
    "response_tokens": "response length (tokens)",
}
_TITLES = {
    "first_action": "First action",
    "full_trajectory": "Full trajectory",
    "turn_coverage": "Turn coverage",
}


@dataclass(frozen=True)
class Figure:
    """A drawn figure: a file, a caption, what it was drawn from, and its points as CSV where no table has them."""

    slug: str
    title: str
    caption: str
    path: Path
    sources: tuple[Path, ...]
    series: str = ""


def draw_performance(setting: Setting, place: int, folder: Path) -> Figure | None:
    """Success against training time, one line per method."""
    groups = [group for group in setting.groups if spread_over_time(group.runs)]
    if not groups:
        return None
    figure, (axes,) = _figure(1, width=9.0, height=4.6)
    for group in groups:
        seconds, means, lows, highs = map(list, zip(*spread_over_time(group.runs), strict=True))
        colour, dashes = _look(group, setting)
        axes.fill_between(seconds, lows, highs, color=colour, alpha=0.10, linewidth=0)
        axes.plot(seconds, means, color=colour, dashes=dashes, linewidth=1.8, label=group.label)
        axes.plot(seconds[-1:], means[-1:], "*", color=colour, markersize=11, clip_on=False)
    teachers = [other.result.result for other in setting.others if other.label.startswith("Teacher")]
    for teacher in teachers:
        axes.axhline(teacher.overall.success_rate.mean, color="#666666", linewidth=1, linestyle=":")
    axes.set_xlim(left=0)
    axes.set_ylim(0, min(100.0, max(10.0, 1.08 * axes.get_ylim()[1])))
    axes.set_xlabel("training time (s)")
    axes.set_ylabel("success rate (%)")
    _legend_beside(axes)
    caption = (
        "Mean over training seeds; the band spans the lowest and the highest, a star is the final checkpoint"
        + (", the dotted line the teacher." if teachers else ".")
    )
    title = f"Success against training time, {setting.label}"
    series = csv_text(
        (*_RUN, "update", "training_seconds", "success"),
        [
            (*_names(group, run), point.update, f"{point.training_seconds:.3f}", f"{point.success_rate:.3f}")
            for group in groups
            for run in group.runs
            for point in run.curve
        ],
    )
    return _save(figure, folder, f"performance-{place}", title, caption, _paths(groups), series)


def draw_alignment(setting: Setting, place: int, folder: Path) -> Figure | None:
    """Windowed reference alignment of the guided methods over updates."""
    groups = [group for group in setting.groups if any(run.alignment.rates() for run in group.runs)]
    if not groups:
        return None
    figure, panels = _figure(3, width=11.0, height=4.0)
    points: list[tuple[object, ...]] = []
    for group in groups:
        colour, dashes = _look(group, setting)
        curves = [
            {update: rates for update, rates in alignment_over_updates(run.lines).items() if rates}
            for run in group.runs
        ]
        points += [
            (*_names(group, run), update, *(f"{rates[rate]:.3f}" for rate in RATES))
            for run, curve in zip(group.runs, curves, strict=True)
            for update, rates in curve.items()
        ]
        xs = sorted(set.intersection(*map(set, curves)))
        for axes, rate in zip(panels, RATES, strict=True):
            ys = [statistics.fmean(curve[update][rate] for curve in curves) for update in xs]
            axes.plot(xs, ys, color=colour, dashes=dashes, linewidth=1.8, label=group.label, clip_on=False)
    for axes, rate in zip(panels, RATES, strict=True):
        axes.set_title(_TITLES[rate], fontsize=10, loc="left")
        axes.set_ylim(0, 100)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("update")
    panels[0].set_ylabel("aligned (%)")
    _legend_below(figure, panels[0])
    caption = "Counts over the latest ten rollout batches at each update, mean over training seeds."
    title = f"Reference alignment during training, {setting.label}"
    series = csv_text((*_RUN, "update", *RATES), points)
    return _save(figure, folder, f"alignment-{place}", title, caption, _paths(groups), series)


def draw_stability(setting: Setting, place: int, folder: Path) -> Figure | None:
    """How steadily methods that learn from rewards do so: five figures over updates."""
    rows = {
        (group, run): [_stability(run, line) for line in run.updates if "sampled_entropy" in line.extra]
        for group in setting.groups
        for run in group.runs
    }
    rows = {key: lines for key, lines in rows.items() if lines}
    if not rows:
        return None
    figure, panels = _figure(len(_STABILITY), width=15.0, height=3.6)
    for (group, run), lines in rows.items():
        colour, dashes = _look(group, setting)
        xs, *columns = zip(*lines, strict=True)
        for axes, ys in zip(panels, columns, strict=True):
            label = group.label if run is group.runs[0] else None
            axes.plot(xs, ys, color=colour, dashes=dashes, linewidth=1.4, label=label)
    for axes, title in zip(panels, _STABILITY.values(), strict=True):
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("update")
    _legend_below(figure, panels[0])
    series = csv_text(
        (*_RUN, "update", *_STABILITY),
        [(*_names(*key), *(f"{value:.6g}" for value in line)) for key, lines in rows.items() for line in lines],
    )
    caption = (
        "One line per training seed. Success is that of the rollouts an update learned from, entropy is estimated from "
        "the sampled tokens, KL is to the model that training began with."
    )
    title, paths = f"Learning from rewards, {setting.label}", [run.folder for _, run in rows]
    return _save(figure, folder, f"stability-{place}", title, caption, paths, series)


def _stability(run: Run, line: UpdateLine) -> tuple[float, ...]:
    """Update number, then the values of `_STABILITY`; not a number where nothing was measured."""
    batches = [batch for batch in run.batches if batch.training_seconds <= line.training_seconds]
    success = 100.0 * batches[-1].succeeded / batches[-1].episodes if batches else nan
    measured = (
        line.extra["sampled_entropy"],
        line.clip_fraction,
        line.extra.get("anchor_kl"),
        line.extra.get("response_tokens"),
    )
    return (line.update, success, *(nan if value is None else value for value in measured))


def draw_utilisation(setting: Setting, place: int, folder: Path) -> Figure | None:
    """How busy the machine was, in the early window and over whole runs; the first seed of each method."""
    runs = {group: group.runs[0] for group in setting.groups if len(group.runs[0].utilisation) > 1}
    if not runs:
        return None
    figure, (early, whole) = _figure(2, width=11.0, height=4.0)
    on_gpus = any(line.gpus for run in runs.values() for line in run.utilisation)
    for group, run in runs.items():
        colour, dashes = _look(group, setting)
        xs, ys = smoothed([(line.seconds, line.busy) for line in run.utilisation])
        for axes in (early, whole):
            axes.plot(xs, ys, color=colour, dashes=dashes, linewidth=1.4, label=_with_rate(group, run))
    window = early_window([run.utilisation[-1].seconds for run in runs.values()])
    early.set_xlim(0, window)
    whole.set_xlim(left=0)
    for axes, title in ((early, f"first {window:g} s"), (whole, "whole run")):
        axes.set_ylim(bottom=0)
        axes.set_xlabel("training time (s)")
        axes.set_title(title, fontsize=10, loc="left")
    early.set_ylabel("GPU utilisation (%)" if on_gpus else "processor (% of one core)")
    _legend_below(figure, whole)
    what = "mean over GPUs" if on_gpus else "all threads and worker processes of the run: no GPU was found"
    series = csv_text(
        (*_RUN, "training_seconds", "busy", *UTILISATION_PARTS),
        [
            (*_names(group, run), line.seconds, f"{line.busy:.1f}", *map(line.parts.get, UTILISATION_PARTS))
            for group, run in runs.items()
            for line in run.utilisation
        ],
    )
    caption = f"One run of each method, {what}, smoothed over {SMOOTHED} samples; steps/s is the throughput of the run."
    title, paths = f"Utilisation over time, {setting.label}", [run.folder for run in runs.values()]
    return _save(figure, folder, f"utilisation-{place}", title, caption, paths, series)


def smoothed(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Means over some neighbouring samples."""
    values = [value for _, value in points]
    windows = [values[max(0, at + 1 - SMOOTHED) : at + 1] for at in range(len(values))]
    return [second for second, _ in points], [statistics.fmean(window) for window in windows]


def _with_rate(group: MethodRuns, run: Run) -> str:
    try:
        return f"{group.label}, {times_of(run).full.rate:.2f} steps/s"
    except RunFolderError:
        return group.label


def draw_rollout(stored: tuple[Path, RolloutResult], place: int, folder: Path) -> Figure:
    """Both scans: measured (solid), idealized (dashed), and what the engine allows at best (dotted)."""
    path, result = stored
    figure, panels = _figure(2, width=10.0, height=4.0)
    settings = result.settings
    scans = (
        ("cap on concurrent requests", [p for p in result.points if p.turns == settings.turns], "cap"),
        ("virtual turns", [p for p in result.points if p.cap == settings.cap], "turns"),
    )
    for axes, (name, points, key) in zip(panels, scans, strict=True):
        for colour, full in zip(_PALETTE, settings.full):
            chosen = sorted((p for p in points if p.full == full), key=lambda p: getattr(p, key))
            _draw_scan(axes, chosen, [float(getattr(p, key)) for p in chosen], full, colour)
        axes.axhline(1.0, color="#999999", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("symlog", linthresh=2.5, linscale=1.5)
        ticks = sorted({getattr(p, key) for p in points})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_yticks(
            [0, 0.5, 1, 1.5, 2, 2.5, 5, 10, 20], ["0", "0.5", "1", "1.5", "2", "2.5", "5", "10", "20"]
        )
        axes.minorticks_off()
        axes.set_ylim(0, 1.4 * max(max(p.ideal, p.most) for p in result.points))
        axes.set_xlabel(name)
    panels[0].set_ylabel("rollout speedup")
    _legend_below(figure, panels[0])
    panels[0].set_title(f"{settings.turns} turns", fontsize=10, loc="left")
    panels[1].set_title(f"cap {settings.cap}", fontsize=10, loc="left")
    caption = (
        f"{said(result)} Solid: speedup, mean ± deviation over repeats. Dashed: the idealized estimate from "
        "single-request latencies. Dotted: what this engine allows at best, by the longer of its dependencies and its "
        "work, each timed alone. Linear up to 2.5, logarithmic above."
    )
    title = f"Rollout efficiency{simulated_mark(result)}"
    if result.simulated:
        figure.suptitle("SIMULATED engine", fontsize=9, color="#B00020", x=0.99, ha="right")
    return _save(figure, folder, f"rollout-{place}", title, caption, [path])


def draw_quality(stored: tuple[Path, QualityResult], place: int, folder: Path) -> Figure:
    """Repetition, yield and turns of each strategy, by checkpoint."""
    path, result = stored
    figure, panels = _figure(3, width=11.0, height=4.0)
    names = list(dict.fromkeys(row.checkpoint for row in result.rows))
    metrics = (
        ("tasks with a repetition (%)", "repeat"),
        ("successes per 100 steps", "per_100"),
        ("turns", "turns"),
    )
    width = 0.8 / len(Strategy)
    for axes, (title, key) in zip(panels, metrics, strict=True):
        for place_of, strategy in enumerate(Strategy):
            rows = {row.checkpoint: getattr(row, key) for row in result.rows if row.strategy == strategy}
            shown = [(at, rows[name]) for at, name in enumerate(names) if rows.get(name) is not None]
            xs = [at + (place_of - 1) * width for at, _ in shown]
            colour = _PALETTE[(0, 3, 4)[place_of]]
            axes.bar(xs, [value for _, value in shown], width * 0.92, color=colour, label=strategy.label)
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_title(title, fontsize=10, loc="left")
    _legend_below(figure, panels[0])
    caption = "All strategies play the same tasks from the same frozen checkpoint with the same sampling seeds."
    return _save(figure, folder, f"quality-{place}", "Rollout quality by acting strategy", caption, [path])


def _draw_scan(axes: Axes, points: Sequence[RolloutPoint], xs: Sequence[float], full: int, colour: str) -> None:
    speedups, deviations = [p.speedup for p in points], [p.deviation or 0.0 for p in points]
    label = f"{full}-token responses"
    axes.errorbar(xs, speedups, yerr=deviations, color=colour, marker="o", markersize=4, capsize=3, label=label)
    axes.plot(xs, [p.ideal for p in points], color=colour, linestyle="--", linewidth=1.2)
    axes.plot(xs, [p.most for p in points], color=colour, linestyle=":", linewidth=1.2)


def _look(group: MethodRuns, setting: Setting) -> tuple[str, tuple[float | None, ...]]:
    """A colour per method, another dash for each of its variants."""
    variants = [one.label for one in setting.groups if one.spec == group.spec]
    place = list(METHODS).index(group.spec)
    return _PALETTE[place % len(_PALETTE)], _DASHES[variants.index(group.label) % len(_DASHES)]


def _names(group: MethodRuns, run: Run) -> tuple[object, ...]:
    return group.label, run.folder.name, run.seed


def _paths(groups: Sequence[MethodRuns]) -> list[Path]:
    return [path for group in groups for path in group.paths]


def _figure(columns: int, *, width: float, height: float) -> tuple[MatplotlibFigure, list[Axes]]:
    figure, panels = canvas(width, height, columns=columns)
    for axes in panels:
        axes.spines[["left", "bottom"]].set_color("#888888")
        axes.tick_params(labelsize=8, color="#888888")
    return figure, panels


def _legend_beside(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    # A long name must not squeeze the drawing.
    folded = ["\n".join(textwrap.wrap(label, 34)) for label in labels]
    axes.legend(handles, folded, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)


def _legend_below(figure: MatplotlibFigure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    columns = len(labels) if sum(map(len, labels)) < 100 else 1  # long names stand below each other
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def _save(
    figure: MatplotlibFigure,
    folder: Path,
    slug: str,
    title: str,
    caption: str,
    sources: Sequence[Path],
    series: str = "",
) -> Figure:
    path = folder / f"{slug}.png"
    figure.savefig(path, dpi=160)
    figure.savefig(path.with_suffix(".svg"))
    return Figure(slug, title, caption, path, tuple(sources), series)
