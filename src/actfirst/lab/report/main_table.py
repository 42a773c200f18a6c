"""The paper's main table: task performance by task type and split, and training cost, one table per setting."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.lab.compare import MethodRuns, speedup
from actfirst.lab.report.cells import NOTHING, Cell, Table, Words, mark_column, number
from actfirst.lab.report.sources import VANILLA, Setting
from actfirst.runs.evaluations import Evaluation, Statistic


@dataclass(frozen=True)
class _Column:
    """A column of the main table: what it reads from an evaluation, which way is better, whether it has a ±."""

    head: str
    of: Callable[[Evaluation], Statistic | None]
    higher: bool = True
    spread: bool = False

    def mean(self, evaluations: Sequence[Evaluation]) -> float | None:
        values = [found.mean for one in evaluations if (found := self.of(one)) is not None]
        return statistics.fmean(values) if values else None

    def cell(self, evaluations: Sequence[Evaluation], sources: Sequence[Path]) -> Cell:
        """Over training seeds; for a single run over its evaluation seeds."""
        found = [statistic for one in evaluations if (statistic := self.of(one)) is not None]
        if not found:
            return Words(NOTHING)
        over = found[0] if len(found) == 1 else Statistic.over([statistic.mean for statistic in found])
        return number(over if self.spread else over.mean, 2, sources)


def main_table(setting: Setting, place: int) -> Table | None:
    """Task performance and training cost; marks are among the trained students."""
    finals = {group.label: [run.final for run in group.runs if run.final] for group in setting.groups}
    trained = [group for group in setting.groups if finals[group.label]]
    if not trained and not setting.others:
        return None
    columns = _columns(setting)
    others: list[list[Cell]] = [
        [
            Words(other.label),
            *(column.cell([other.result.result], [other.path]) for column in columns),
            *[Words(NOTHING)] * 3,
        ]
        for other in setting.others
    ]
    body: list[list[Cell]] = [
        [
            Words(group.label),
            *(column.cell(finals[group.label], group.paths) for column in columns),
            number(_times(group), 1, group.paths),
            number(_process_times(group), 1, group.paths),
            _speedup_cell(group, setting.group(VANILLA)),
        ]
        for group in trained
    ]
    for at, column in enumerate(columns, start=1):
        means = [column.mean(finals[group.label]) for group in trained]
        mark_column(body, at, means, 2, higher=column.higher)
    mark_column(body, len(columns) + 1, [_times(group).mean for group in trained], 1, higher=False)
    return Table(
        slug=f"main-{place}",
        title=f"Task performance and training cost, {setting.label}",
        note=_note(trained),
        heads=("Method", *(column.head for column in columns), "Training time (s)", "Process (s)", "Speedup"),
        rows=tuple(map(tuple, [*others, *body])),
        rules=(len(others),) if others and body else (),
    )


def _columns(setting: Setting) -> list[_Column]:
    records = [run.final for group in setting.groups for run in group.runs if run.final]
    records += [other.result.result for other in setting.others]
    kinds = {kind for record in records for kind in record.by_kind}
    splits = list(dict.fromkeys(split for record in records for split in record.by_split))
    columns = [_Column(kind, _of("by_kind", kind, "success_rate")) for kind in sorted(kinds) if len(kinds) > 1]
    for split in splits if len(splits) > 1 else []:
        columns.append(_Column(f"{split} SR", _of("by_split", split, "success_rate")))
        columns.append(_Column(f"{split} Round", _of("by_split", split, "rounds"), higher=False))
    columns.append(_Column("All SR", lambda record: record.overall.success_rate, spread=True))
    if any(abs(record.overall.score.mean - record.overall.success_rate.mean) > 1e-9 for record in records):
        columns.append(_Column("Score", lambda record: record.overall.score, spread=True))
    columns.append(_Column("All Round", lambda record: record.overall.rounds, higher=False))
    return columns


def _of(groups: str, name: str, metric: str) -> Callable[[Evaluation], Statistic | None]:
    return lambda record: getattr(getattr(record, groups).get(name), metric, None)


def _times(group: MethodRuns) -> Statistic:
    return Statistic.over([run.summary.training_seconds for run in group.runs])


def _process_times(group: MethodRuns) -> Statistic | None:
    """From launch to exit; None where a run does not say it."""
    seconds = [run.summary.process_seconds for run in group.runs]
    return Statistic.over(seconds) if all(seconds) else None


def _speedup_cell(group: MethodRuns, base: MethodRuns | None) -> Cell:
    theirs = base.by_seed() if base is not None else {}
    own = [run for run in group.runs if run.seed in theirs]
    if not own:
        return Words(NOTHING)
    pairs = [(theirs[run.seed], run) for run in own]
    ratio = speedup([one for one, _ in pairs], own)
    return number(ratio, 2, [run.folder for pair in pairs for run in pair], unit="×")


def _note(groups: Sequence[MethodRuns]) -> str:
    seeds = sorted({run.seed for group in groups for run in group.runs})
    spread = (
        f"± is the sample deviation over training seeds {', '.join(map(str, seeds))}"
        if any(len(group.runs) > 1 for group in groups)
        else "± is the sample deviation over evaluation seeds"
    )
    return (
        f"SR and Score in percent, Round in turns; {spread}. Training time is without evaluation, process time from "
        "launch to exit with it; speedups are paired with vanilla by seed. Among trained students the best is bold and "
        "the second best underlined."
    )
