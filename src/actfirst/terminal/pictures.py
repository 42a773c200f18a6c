"""Pictures of runs: empty panels in the style of all pictures, and success against training time of one run.

Colours are Okabe and Ito's, which people of all kinds of colour vision tell apart, and every line carries its name, so
that no legend has to be matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.runs.run import open_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE = "success.png"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_QUIET = "#555555"


def canvas(
    width: float, height: float, *, rows: int = 1, columns: int = 1, heights: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches and its panels, row by row; `heights` are those of rows, in proportion."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as MatplotlibFigure

    # Without pyplot there is no global state, no display is looked for, and nothing has to be closed.
    figure = MatplotlibFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, columns, height_ratios=heights)
    panels = [figure.add_subplot(grid[row, column]) for row in range(rows) for column in range(columns)]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
        axes.set_axisbelow(True)
    return figure, panels


def draw_run(folder: Path) -> Path | None:
    """Write success.png into a run folder; None with fewer than two evaluations of the student."""
    run = open_run(folder)
    if len(run.curve) < 2:
        return None
    seconds = [point.training_seconds for point in run.curve]
    success = [point.success_rate for point in run.curve]
    figure, (axes,) = canvas(7.2, 4.2)
    axes.plot(seconds, success, color=COLOURS[0], marker="o", markersize=5, linewidth=2, clip_on=False)
    _label(axes, seconds[0], success[0], f"before: {success[0]:.0f} %", (4, -14))
    _label(axes, seconds[-1], success[-1], f"student: {success[-1]:.0f} %", (6, -3))
    for point in [line for line in run.evaluations if line.who == "teacher"][-1:]:
        teacher_line(axes, point.success_rate)
    time_axes(axes, seconds[-1] * 1.25)  # room for the name of the line
    title = run.summary.title if run.finished else "Training run"
    axes.set_title(f"{title}: success against training time", loc="left", fontsize=12)
    figure.savefig(folder / PICTURE, dpi=150)
    return folder / PICTURE


def time_axes(axes: Axes, seconds: float) -> None:
    axes.set_ylim(0, 100)
    axes.set_xlim(0, max(1.0, seconds))
    axes.set_xlabel("training time (s, evaluation excluded)")
    axes.set_ylabel("success rate (%)")


def teacher_line(axes: Axes, success: float) -> None:
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


def _label(axes: Axes, x: float, y: float, text: str, shift: tuple[float, float]) -> None:
    axes.annotate(
        text,
        (x, y),
        xytext=shift,
        textcoords="offset points",
        fontsize=9,
        color=COLOURS[0],
        annotation_clip=False,
    )
