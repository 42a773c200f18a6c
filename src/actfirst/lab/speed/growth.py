"""The curves of `actfirst bench scale`: time and memory over what doubles, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actfirst.lab.speed.scale import Growth
from actfirst.terminal.pictures import canvas


def draw_growth(grown: Sequence[Growth], path: Path) -> None:
    """One line per axis in two panels; the dashed line doubles with what doubles."""
    figure, panels = canvas(10.0, 4.2, columns=2)
    for axes, title, base in zip(panels, ("CPU time", "memory of the engine"), ("cpu", "memory"), strict=True):
        for growth in grown:
            costs = [float(getattr(cost, base)) for cost in growth.costs]
            axes.plot(growth.factors, [cost / costs[0] for cost in costs], marker="o", label=growth.axis)
        factors = max(grown, key=lambda growth: len(growth.factors)).factors
        axes.plot(factors, factors, color="#999999", linestyle="--", linewidth=1, label="in proportion")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(factors, [f"{factor}x" for factor in factors])
        axes.yaxis.set_major_formatter("{x:g}x")
        axes.set_title(title, fontsize=10, loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
