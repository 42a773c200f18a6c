"""The picture of `actfirst compare`: success against training time, and where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.lab.compare import Comparison, MethodResult, spread_over_time
from actfirst.runs.lines import EVALUATION
from actfirst.terminal.pictures import COLOURS, canvas, teacher_line, time_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Stages are greys from dark to light: colours belong to the methods.
_STAGE_COLOURS = {
    "rollout": "#3B3B3B",
    "update": "#8A8A8A",
    "sync": "#B5B5B5",
    "checkpoint": "#CFCFCF",
    "start-up": "#DBDBDB",
}
_OTHER = "#E6E6E6"
_STAGE_ORDER = (*_STAGE_COLOURS, "other")


def draw_comparison(comparison: Comparison, path: Path) -> Path:
    """Success against training time, and below it, on the same axis of time, what the time went to."""
    height = 1.3 + 0.42 * len(comparison.methods)
    figure, (above, below) = canvas(8.4, 4.4 + height, rows=2, heights=(4.4, height))
    below.sharex(above)
    _draw_curves(above, comparison)
    _draw_stages(below, comparison.methods)
    above.set_xlabel("")
    figure.savefig(path, dpi=150)
    figure.savefig(path.with_suffix(".svg"))
    return path


def _draw_curves(axes: Axes, comparison: Comparison) -> None:
    latest = max(run.summary.training_seconds for method in comparison.methods for run in method.runs)
    ends: list[tuple[float, float, str, str]] = []
    for method, colour in zip(comparison.methods, _cycle(len(comparison.methods)), strict=True):
        spread = spread_over_time(method.runs)
        if not spread:
            continue
        seconds, means, lows, highs = (list(column) for column in zip(*spread, strict=True))
        axes.fill_between(seconds, lows, highs, color=colour, alpha=0.18, linewidth=0)
        axes.plot(seconds, means, color=colour, marker="o", markersize=4, linewidth=2, clip_on=False)
        name = f"{method.label}\n{means[-1]:.0f} % in {seconds[-1]:.0f} s"
        ends.append((seconds[-1], means[-1], name, colour))
    time_axes(axes, latest * 1.04)
    rates = [run.summary.success_rate.teacher for method in comparison.methods for run in method.runs]
    if teachers := [rate for rate in rates if rate is not None]:
        teacher_line(axes, teachers[0])
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
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    axes.legend(**beside, frameon=False, fontsize=9, handlelength=1.0, handleheight=1.0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _stage_means(method: MethodResult) -> dict[str, float]:
    means: dict[str, float] = {}
    for run in method.runs:
        for name, seconds in run.summary.seconds_by_stage.items():
            if name != EVALUATION:
                key = name if name in _STAGE_COLOURS else "other"
                means[key] = means.get(key, 0.0) + seconds / len(method.runs)
    return means


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
    return [COLOURS[place % len(COLOURS)] for place in range(count)]
