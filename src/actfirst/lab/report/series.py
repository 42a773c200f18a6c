"""The points behind the curves of a report, as CSV: one line per run and point, with the run's name."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from actfirst.lab.alignment_rates import RATES, alignment_of
from actfirst.lab.report.sources import MethodGroup


def performance_series(groups: Sequence[MethodGroup]) -> str:
    """Success at every evaluated checkpoint of every run."""
    rows = (
        (group.label, run.folder.name, run.seed, point.update, f"{point.seconds:.3f}", f"{point.success:.3f}")
        for group in groups
        for run in group.runs
        for point in run.curve
    )
    return _text(("method", "run", "seed", "update", "training_seconds", "success"), rows)


def alignment_series(groups: Sequence[MethodGroup]) -> str:
    """Windowed reference alignment of every run at every update."""
    rows = (
        (group.label, run.folder.name, run.seed, point.update, *(f"{point.rates[rate]:.3f}" for rate in RATES))
        for group in groups
        for run in group.runs
        for point in alignment_of(run.folder).points
        if point.rates
    )
    return _text(("method", "run", "seed", "update", *RATES), rows)


def _text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return out.getvalue()
