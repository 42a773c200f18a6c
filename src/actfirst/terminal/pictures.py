"""Pictures of runs: success against training time, and where the time went.

Reads run folders only. Colours are Okabe and Ito's, which people of all kinds of colour vision tell apart, and
every line carries its name, so that no legend has to be matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.lab.compare import Comparison, MethodResult, spread_over_time
from actfirst.runs.lines import EvaluationLine, read_lines, read_summary
from actfirst.runs.run_record import curve_of
from actfirst.terminal.canvas import canvas
from actfirst.training.clock import EVALUATION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE = "success.png"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Stages are greys from dark to light: colours belong to the methods.
_STAGE_COLOURS = {"rollout": "#3B3B3B", "update": "#8A8A8A", "sync": "#B5B5B5", "checkpoint": "#CFCFCF"}
_OTHER = "#E6E6E6"
_QUIET = "#555555"
_STAGE_ORDER = (*_STAGE_COLOURS, "other")


def draw_run(folder: Path) -> Path | None:
    """Write success.png into a run folder; None with fewer than two evaluations of the student."""
    evaluations = [line for line in read_lines(folder) if isinstance(line, EvaluationLine)]
    curve = curve_of(evaluations)
    if len(curve) < 2:
        return None
    teacher = [line.success_rate for line in evaluations if line.who == "teacher"]
    summary = read_summary(folder)
    figure, (axes,) = canvas(7.2, 4.2)
    seconds, success = [point.seconds for point in curve], [point.success for point in curve]
    axes.plot(seconds, success, color=_COLOURS[0], marker="o", markersize=5, linewidth=2, clip_on=False)
    _label(axes, seconds[0], success[0], f"before: {success[0]:.0f} %", _COLOURS[0], (4, -14))
    _label(axes, seconds[-1], success[-1], f"student: {success[-1]:.0f} %", _COLOURS[0], (6, -3))
    if teacher:
        _teacher_line(axes, teacher[-1])
    _time_axes(axes, seconds[-1] * 1.25)  # room for the name of the line
    title = summary.title if summary else "Training run"
    axes.set_title(f"{title}: success against training time", loc="left", fontsize=12)
    return _save(figure, folder / PICTURE)


def draw_comparison(comparison: Comparison, path: Path) -> Path:
    """Success against training time, and below it, on the same axis of time, what the time went to."""
    height = 1.3 + 0.42 * len(comparison.methods)
    figure, (above, below) = canvas(8.4, 4.4 + height, rows=2, heights=(4.4, height))
    below.sharex(above)
    _draw_curves(above, comparison)
    _draw_stages(below, comparison.methods)
    above.set_xlabel("")
    return _save(figure, path)


def _draw_curves(axes: Axes, comparison: Comparison) -> None:
    latest = max(run.training_seconds for method in comparison.methods for run in method.runs)
    ends: list[tuple[float, float, str, str]] = []
    for method, colour in zip(comparison.methods, _cycle(len(comparison.methods)), strict=True):
        spread = spread_over_time(method.runs)
        if not spread:
            continue
        seconds, means, lows, highs = (list(column) for column in zip(*spread, strict=True))
        axes.fill_between(seconds, lows, highs, color=colour, alpha=0.18, linewidth=0)
        axes.plot(seconds, means, color=colour, marker="o", markersize=4, linewidth=2, clip_on=False)
        ends.append(
            (seconds[-1], means[-1], f"{method.label}\n{means[-1]:.0f} % in {seconds[-1]:.0f} s", colour)
        )
    _time_axes(axes, latest * 1.04)
    teachers = [run.teacher for method in comparison.methods for run in method.runs if run.teacher is not None]
    if teachers:
        _teacher_line(axes, teachers[0])
    for (x, y, text, colour), height in zip(ends, _apart([end[1] for end in ends]), strict=True):
        _name_in_margin(axes, (x, y), height, text, colour)
    seeds = len(comparison.seeds)
    shown = f"mean of {seeds} seeds, band: lowest to highest" if seeds > 1 else "one training seed"
    axes.set_title(f"Success against training time ({shown})", loc="left", fontsize=11)


def _draw_stages(axes: Axes, methods: Sequence[MethodResult]) -> None:
    places = list(range(len(methods)))[::-1]
    begun = [0.0] * len(methods)
    shares = [_stage_means(method) for method in methods]
    longest = max(sum(share.values()) for share in shares)
    for stage in _STAGE_ORDER:
        widths = [share.get(stage, 0.0) for share in shares]
        colour = _STAGE_COLOURS.get(stage, _OTHER)
        axes.barh(places, widths, left=begun, height=0.6, color=colour, linewidth=0, label=stage)
        for place, start, width in zip(places, begun, widths, strict=True):
            if width > 0.07 * longest:
                text = f"{width:.0f} s"
                axes.text(start + width / 2, place, text, ha="center", va="center", fontsize=8, color="white")
        begun = [start + width for start, width in zip(begun, widths, strict=True)]
    axes.set_yticks(places, [method.label for method in methods])
    for label, colour in zip(axes.get_yticklabels(), _cycle(len(methods)), strict=True):
        label.set_color(colour)
    axes.set_xlabel("training time (s, evaluation excluded)")
    axes.set_title("Where it goes (mean over seeds)", loc="left", fontsize=11)
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        fontsize=9,
        handlelength=1.0,
        handleheight=1.0,
    )
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _stage_means(method: MethodResult) -> dict[str, float]:
    means: dict[str, float] = {}
    for run in method.runs:
        for name, seconds in run.stages.items():
            if name != EVALUATION:
                key = name if name in _STAGE_COLOURS else "other"
                means[key] = means.get(key, 0.0) + seconds / len(method.runs)
    return means


def _time_axes(axes: Axes, seconds: float) -> None:
    axes.set_ylim(0, 100)
    axes.set_xlim(0, max(1.0, seconds))
    axes.set_xlabel("training time (s, evaluation excluded)")
    axes.set_ylabel("success rate (%)")


def _teacher_line(axes: Axes, success: float) -> None:
    axes.axhline(success, color=_QUIET, linestyle=(0, (5, 4)), linewidth=1.2)
    axes.annotate(
        f"teacher: {success:.0f} %",
        (1.0, success),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        color=_QUIET,
    )


def _label(axes: Axes, x: float, y: float, text: str, colour: str, shift: tuple[float, float]) -> None:
    axes.annotate(
        text, (x, y), xytext=shift, textcoords="offset points", fontsize=9, color=colour, annotation_clip=False
    )


def _name_in_margin(axes: Axes, end: tuple[float, float], height: float, text: str, colour: str) -> None:
    """The name of a line right of the axes, where no other line can run through it, and a thread to its end."""
    axes.annotate(
        text,
        end,
        xytext=(1.02, height),
        textcoords=("axes fraction", "data"),
        va="center",
        fontsize=9,
        color=colour,
        annotation_clip=False,
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "linestyle": ":", "shrinkB": 4},
    )


def _apart(values: Sequence[float], needed: float = 12.0) -> list[float]:
    """Heights (percent) as near to `values` as two-line names can stand without covering each other."""
    heights = [0.0] * len(values)
    taken = float("inf")
    order = sorted(range(len(values)), key=lambda index: -values[index])
    for place in order:
        taken = heights[place] = min(values[place], taken - needed)
    # Names were only pushed down; raising all by half of the largest push halves it.
    raised = max((values[place] - heights[place] for place in order), default=0.0) / 2
    return [height + raised for height in heights]


def _cycle(count: int) -> list[str]:
    return [_COLOURS[place % len(_COLOURS)] for place in range(count)]


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=150)
    return path
