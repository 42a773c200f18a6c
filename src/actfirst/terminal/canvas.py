"""Empty panels in the style of all pictures: what is drawn into them is the business of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
