"""The paper's main table: task performance by task type and split, and training cost, one table per setting."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.evaluate.results import Statistic
from actfirst.lab.aggregate import marks
from actfirst.lab.report.cells import Cell, Table, Words, mark_column, number
from actfirst.lab.report.sources import VANILLA, MethodGroup, Setting
from actfirst.lab.results import EvaluationRecord
from actfirst.runs.run_record import RunRecord


@dataclass(frozen=True)
class _Column:
    """A column of the main table: what it reads from an evaluation, and which way is better."""

    head: str
    of: Callable[[EvaluationRecord], float | None]
    higher: bool = True
    spread: bool = False
    per_seed: Callable[[EvaluationRecord], Sequence[float]] | None = None


def main_table(setting: Setting, place: int) -> Table | None:
    """Task performance and training cost; marks are among the trained students."""
    trained = [group for group in setting.groups if any(run.final for run in group.runs)]
    if not trained and not setting.others:
        return None
    columns = _columns(setting)
    rows: list[list[Cell]] = []
    for other in setting.others:
        cells = [_other_cell(column, other.result.result, other.path) for column in columns]
        rows.append([Words(other.label), *cells, Words("–"), Words("–")])
    first = len(rows)
    body = [[_group_cell(column, group) for column in columns] for group in trained]
    times = [_time_cells(group, setting.group(VANILLA)) for group in trained]
    for at, column in enumerate(columns):
        values = {row: _mean(column, group) for row, group in enumerate(trained)}
        known = {row: value for row, value in values.items() if value is not None}
        mark_column(body, at, marks(known, digits=2, higher_is_better=column.higher))
    mark_column(times, 0, marks(_times(trained), digits=1, higher_is_better=False))
    for group, cells, time in zip(trained, body, times, strict=True):
        rows.append([Words(group.label), *cells, *time])
    heads = ("Method", *(column.head for column in columns), "Training time (s)", "Speedup")
    return Table(
        slug=f"main-{place}",
        title=f"Task performance and training cost, {setting.label}",
        note=_main_note(trained),
        heads=heads,
        rows=tuple(tuple(row) for row in rows),
        rules=(first,) if 0 < first < len(rows) else (),
    )


def _columns(setting: Setting) -> list[_Column]:
    records = [run.final for group in setting.groups for run in group.runs if run.final]
    records += [other.result.result for other in setting.others]
    kinds = list(dict.fromkeys(kind for record in records for kind in record.by_kind))
    splits = list(dict.fromkeys(split for record in records for split in record.by_split))
    columns = [_kind_column(kind) for kind in sorted(kinds)] if len(kinds) > 1 else []
    for split in splits if len(splits) > 1 else []:
        columns += _split_columns(split)
    columns.append(
        _Column(
            "All SR",
            lambda record: record.overall.success_rate.mean,
            spread=True,
            per_seed=lambda record: record.overall.success_rate.per_seed,
        )
    )
    if any(abs(record.overall.score.mean - record.overall.success_rate.mean) > 1e-9 for record in records):
        columns.append(
            _Column(
                "Score",
                lambda record: record.overall.score.mean,
                spread=True,
                per_seed=lambda record: record.overall.score.per_seed,
            )
        )
    columns.append(_Column("All Round", lambda record: record.overall.rounds.mean, higher=False))
    return columns


def _kind_column(kind: str) -> _Column:
    return _Column(
        kind, lambda record: record.by_kind[kind].success_rate.mean if kind in record.by_kind else None
    )


def _split_columns(split: str) -> list[_Column]:
    return [
        _Column(
            f"{split} SR",
            lambda record: record.by_split[split].success_rate.mean if split in record.by_split else None,
        ),
        _Column(
            f"{split} Round",
            lambda record: record.by_split[split].rounds.mean if split in record.by_split else None,
            higher=False,
        ),
    ]


def _values(column: _Column, group: MethodGroup) -> list[float]:
    return [value for run in group.runs if run.final and (value := column.of(run.final)) is not None]


def _mean(column: _Column, group: MethodGroup) -> float | None:
    values = _values(column, group)
    return statistics.fmean(values) if values else None


def _group_cell(column: _Column, group: MethodGroup) -> Cell:
    """Over training seeds; for a single run over its evaluation seeds."""
    values = _values(column, group)
    deviation = None
    if column.spread and len(values) > 1:
        deviation = statistics.stdev(values)
    elif column.spread and column.per_seed and group.runs[0].final:
        seeds = column.per_seed(group.runs[0].final)
        deviation = statistics.stdev(seeds) if len(seeds) > 1 else None
    return number(statistics.fmean(values) if values else None, 2, group.paths, deviation=deviation)


def _other_cell(column: _Column, record: EvaluationRecord, path: Path) -> Cell:
    deviation = None
    if column.spread and column.per_seed:
        seeds = column.per_seed(record)
        deviation = statistics.stdev(seeds) if len(seeds) > 1 else None
    return number(column.of(record), 2, [path], deviation=deviation)


def _times(groups: Sequence[MethodGroup]) -> dict[int, float]:
    return {place: statistics.fmean(_seconds(group.runs)) for place, group in enumerate(groups)}


def _seconds(runs: Sequence[RunRecord]) -> list[float]:
    return [run.training_seconds for run in runs]


def _time_cells(group: MethodGroup, base: MethodGroup | None) -> list[Cell]:
    seconds = _seconds(group.runs)
    deviation = statistics.stdev(seconds) if len(seconds) > 1 else None
    time = number(statistics.fmean(seconds), 1, group.paths, deviation=deviation)
    if base is None:
        return [time, Words("–")]
    pairs = [(base.by_seed()[run.seed], run) for run in group.runs if run.seed in base.by_seed()]
    if not pairs:
        return [time, Words("–")]
    ratio = Statistic.over([theirs.training_seconds / run.training_seconds for theirs, run in pairs])
    sources = [run.folder for pair in pairs for run in pair]
    return [time, number(ratio.mean, 2, sources, deviation=ratio.deviation, unit="×")]


def _main_note(groups: Sequence[MethodGroup]) -> str:
    seeds = sorted({run.seed for group in groups for run in group.runs})
    spread = (
        f"± is the sample deviation over training seeds {', '.join(map(str, seeds))}"
        if any(len(group.runs) > 1 for group in groups)
        else "± is the sample deviation over evaluation seeds"
    )
    return (
        f"SR and Score in percent, Round in turns; {spread}. Training time is from launch to the end without "
        "evaluation; speedups are paired with vanilla by seed. Among trained students the best is bold and the second "
        "best underlined."
    )
