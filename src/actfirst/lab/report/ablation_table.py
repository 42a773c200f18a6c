"""The paper's ablation table: variants of ActFirst-OPD with SR drops and mean ranks."""

from __future__ import annotations

from collections.abc import Sequence

from actfirst.lab.aggregate import Result, ablation
from actfirst.lab.report.cells import NOTHING, Cell, Table, Words, mark_column, number
from actfirst.lab.report.sources import OURS, Setting
from actfirst.methods.table import METHODS
from actfirst.runs.run import Run

ABLATIONS = ("actfirst-no-id", "actfirst-no-fallback", "replay-50", "replay-100", OURS)


def ablation_table(settings: Sequence[Setting]) -> Table | None:
    """Ours and its variants, averaged over settings and training seeds."""
    units = [unit for setting in settings for unit in _units(setting)]
    names = {method for unit in units for method in unit}
    whole = [unit for unit in units if set(unit) == names]
    results = [
        {
            method: Result(unit[method].final_success or 0.0, unit[method].summary.training_seconds)
            for method in ABLATIONS
            if method in unit
        }
        for unit in whole
    ]
    rows = ablation(results, OURS)
    if len(rows) < 2:
        return None
    body: list[list[Cell]] = []
    for method, row in rows.items():
        paths = [unit[method].folder for unit in whole]
        cells = [number(row.success, 2, paths), number(row.drop, 2, paths)]
        cells += [number(row.seconds, 1, paths), number(row.rank, 2, paths)]
        body.append([Words(METHODS[method].title), *cells])
    mark_column(body, 1, [row.success for row in rows.values()], 2, higher=True)
    mark_column(body, 3, [row.seconds for row in rows.values()], 1, higher=False)
    mark_column(body, 4, [row.rank for row in rows.values()], 2, higher=False)
    body[list(rows).index(OURS)][2] = Words(NOTHING)
    return Table(
        slug="ablation",
        title="Ablations of ActFirst-OPD",
        note=f"Means over pairs of setting and training seed, of which there are {len(whole)}. The drop is in points "
        "of SR; the rank is the mean of ranks by SR in each pair, ties sharing the average.",
        heads=("Method", "SR (%)", "Drop", "Training time (s)", "Rank"),
        rows=tuple(map(tuple, body)),
        rules=(len(rows) - 1,),
    )


def _units(setting: Setting) -> list[dict[str, Run]]:
    """One mapping per training seed: the methods that were run with it, and evaluated."""
    groups = {method: group.by_seed() for method in ABLATIONS if (group := setting.group(method)) is not None}
    return [
        {
            method: runs[seed]
            for method, runs in groups.items()
            if seed in runs and runs[seed].final_success is not None
        }
        for seed in sorted({seed for runs in groups.values() for seed in runs})
    ]
