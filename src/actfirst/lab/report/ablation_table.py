"""The paper's ablation table: variants of ActFirst-OPD with SR drops and mean ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from actfirst.lab.aggregate import AblationRow, Result, ablation, marks
from actfirst.lab.report.cells import Cell, Table, Words, mark_column, number
from actfirst.lab.report.sources import OURS, Setting
from actfirst.methods.table import METHODS

ABLATIONS = ("actfirst-no-id", "actfirst-no-fallback", "replay-50", "replay-100", OURS)


def ablation_table(settings: Sequence[Setting]) -> Table | None:
    """Ours and its variants, averaged over settings and training seeds."""
    units = [unit for setting in settings for unit in _units(setting)]
    names = {method for unit in units for method in unit}
    whole = [
        {method: unit[method] for method in ABLATIONS if method in names}
        for unit in units
        if set(unit) == names
    ]
    rows = ablation([{method: result for method, (result, _) in unit.items()} for unit in whole], OURS)
    if len(rows) < 2:
        return None
    titled = {method: METHODS[method].title for method in rows}
    return Table(
        slug="ablation",
        title="Ablations of ActFirst-OPD",
        note=f"Means over pairs of setting and training seed, of which there are {len(whole)}. The drop is in points "
        "of SR; the rank is the mean of ranks by SR in each pair, ties sharing the average.",
        heads=("Method", "SR (%)", "Drop", "Training time (s)", "Rank"),
        rows=_rows(rows, titled, {method: [unit[method][1] for unit in whole] for method in rows}),
        rules=(len(rows) - 1,),
    )


def _units(setting: Setting) -> list[dict[str, tuple[Result, Path]]]:
    """One mapping per training seed: the methods that were run with it, and where."""
    chosen = {method: group for method in ABLATIONS if (group := setting.group(method)) is not None}
    units = []
    for seed in sorted({run.seed for group in chosen.values() for run in group.runs}):
        runs = {method: group.by_seed().get(seed) for method, group in chosen.items()}
        units.append(
            {
                method: (Result(run.final_success, run.training_seconds), run.folder)
                for method, run in runs.items()
                if run is not None and run.final_success is not None
            }
        )
    return units


def _rows(
    rows: dict[str, AblationRow], labels: dict[str, str], groups: dict[str, list[Path]]
) -> tuple[tuple[Cell, ...], ...]:
    columns: list[tuple[Callable[[AblationRow], float], int, bool]] = [
        (lambda row: row.success, 2, True),
        (lambda row: row.drop, 2, False),
        (lambda row: row.seconds, 1, False),
        (lambda row: row.rank, 2, False),
    ]
    body: list[list[Cell]] = [
        [number(of(row), digits, groups[method]) for of, digits, _ in columns] for method, row in rows.items()
    ]
    for at, (of, digits, higher) in enumerate(columns):
        if at != 1:
            values = {place: of(row) for place, row in enumerate(rows.values())}
            mark_column(body, at, marks(values, digits=digits, higher_is_better=higher))
    body[list(rows).index(OURS)][1] = Words("–")
    return tuple((Words(labels[method]), *cells) for method, cells in zip(rows, body, strict=True))
