"""Figures of several reports in one: runs of one comparison that were made in several places or at several times.

Success is paired anew over all of them. Seconds are those of each place; the speedup of a run was paired with vanilla's
where it was made, so speedups may be averaged and seconds may not be compared. "Sooner" is the time that vanilla takes
to its final success, averaged over its runs, over that of the method; a run of vanilla that ends below counts with its
whole training, which is too little (≥).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from actfirst.errors import ConfigError
from actfirst.lab.compare import reach
from actfirst.lab.report import on_the_way
from actfirst.lab.report.cells import NOTHING, in_markdown, markdown_rows
from actfirst.lab.report.differences import HEADS, NOTE, texts_of
from actfirst.lab.report.recorded import (
    Figures,
    Point,
    RecordedMethod,
    RecordedRun,
    RecordedSetting,
    Success,
    read_figures,
)
from actfirst.lab.report.sources import VANILLA, ZERO_SHOT
from actfirst.runs.evaluations import Statistic


def join(paths: Sequence[Path]) -> Figures:
    """One file of several: their runs of one setting and method beside each other, and paired anew. A seed that a
    method has twice is refused, since nothing says which of the two counts."""
    read = [(path, read_figures(path)) for path in paths]
    labels = dict.fromkeys(one.setting for _, figures in read for one in figures.settings)
    return Figures(
        settings=tuple(
            _joined([(path, one) for path, figures in read for one in figures.settings if one.setting == label])
            for label in labels
        ),
        machines=tuple(dict.fromkeys(machine for _, figures in read for machine in figures.machines)),
    )


def _joined(parts: Sequence[tuple[Path, RecordedSetting]]) -> RecordedSetting:
    games = tuple(sorted({game for _, part in parts for game in part.game_ids}))
    found: dict[tuple[str, str], dict[int, tuple[Path, RecordedRun]]] = {}
    for path, part in parts:
        for method in part.methods:
            runs = found.setdefault((method.method, method.label), {})
            for run in method.runs:
                if run.seed in runs:
                    raise ConfigError(
                        f"{runs[run.seed][0]} and {path} both have {method.label} with seed {run.seed}; "
                        "take it out of one of them"
                    )
                runs[run.seed] = path, _with_games(run, part.game_ids, games, path)
    first = parts[0][1]
    others = {name: one for _, part in reversed(parts) for name, one in part.others.items()}
    zero = next((one for name, one in others.items() if name.startswith(ZERO_SHOT)), None)
    methods = tuple(
        RecordedMethod(
            method=name, label=label, runs=tuple(_from_zero(run, zero) for _, (_, run) in sorted(runs.items()))
        )
        for (name, label), runs in found.items()
    )
    return RecordedSetting(setting=first.setting, others=others, game_ids=games, methods=methods).paired()


def _from_zero(run: RecordedRun, zero: Success | None) -> RecordedRun:
    """The student before training is the same for all runs; one of the places may not have evaluated it."""
    if zero is None or (run.curve and run.curve[0].update == 0):
        return run
    return run.model_copy(update={"curve": (Point(0, 0.0, zero.success), *run.curve)})


def _with_games(run: RecordedRun, own: Sequence[str], games: Sequence[str], path: Path) -> RecordedRun:
    """The run with its games in the order of the joined file; those of another panel cannot be paired."""
    if run.final is None or run.final.by_game is None:
        return run
    if set(own) != set(games):
        raise ConfigError(f"{path} was evaluated on other games than the file beside it; they cannot be paired")
    by_id = dict(zip(own, run.final.by_game, strict=True))
    final = run.final.model_copy(update={"by_game": tuple(by_id[game] for game in games)})
    return run.model_copy(update={"final": final})


def markdown(figures: Figures) -> str:
    """Methods and their paired differences as tables, setting by setting."""
    lines = []
    for setting in figures.settings:
        methods = [_row(method, setting) for method in setting.methods]
        differences = [
            (f"{one.first} less {one.second}", *texts_of(one), one.verdict) for one in setting.differences
        ]
        lines += [f"### {in_markdown(setting.setting)}", "", *_table(_METHOD_HEADS, methods), ""]
        lines += [*_table(HEADS, differences), "", f"{NOTE} {_which_games(setting)}".strip(), ""]
        if rows := list(on_the_way.on_the_way(setting)):
            lines += [*_table(on_the_way.HEADS, rows), "", _ON_THE_WAY, ""]
    return "\n".join(lines)


_ON_THE_WAY = (
    "Before the end, beside the end of vanilla's run with the same seed: success in points, and vanilla's whole "
    "training time over the time until then."
)
_METHOD_HEADS = (
    "Method",
    "Seeds",
    "Success (%)",
    "Mean",
    "Rounds",
    "Transitions",
    "Training (s)",
    "Speedup",
    "Sooner",
)


def _row(method: RecordedMethod, setting: RecordedSetting) -> tuple[str, ...]:
    ends = [run.final for run in method.runs if run.final is not None]
    return (
        method.label,
        ", ".join(str(run.seed) for run in method.runs),
        ", ".join(NOTHING if run.final is None else f"{run.final.success:.1f}" for run in method.runs),
        _mean([end.success for end in ends], 1),
        _mean([end.rounds for end in ends], 1),
        _mean([run.transitions for run in method.runs], 0),
        ", ".join(f"{run.training_seconds:.0f}" for run in method.runs),
        _mean([run.speedup for run in method.runs], 2),
        _sooner(method, setting),
    )


def _sooner(method: RecordedMethod, setting: RecordedSetting) -> str:
    """How many times sooner than vanilla a method is where vanilla ends on average, over runs made beside vanilla's."""
    vanilla = next((one for one in setting.methods if one.method == VANILLA), None)
    if vanilla is None or vanilla is method:
        return NOTHING
    base = {run.seed: run for run in vanilla.runs}
    pairs = [
        (base[run.seed].way, run.way) for run in method.runs if run.speedup is not None and run.seed in base
    ]
    ends = [run.final.success for run in vanilla.runs if run.final is not None]
    if not pairs or not ends:
        return NOTHING
    found = reach([one for one, _ in pairs], [two for _, two in pairs], statistics.fmean(ends))
    if found.sooner is None:
        return f"{found.arrived} of {len(pairs)} arrive"
    return f"{'≥ ' if found.sooner_is_lower_bound else ''}{found.sooner.text(2)}"


def _mean(values: Sequence[float | None], digits: int) -> str:
    """Mean and deviation of what is known."""
    known = [value for value in values if value is not None]
    return Statistic.over(known).text(digits) if known else NOTHING


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return markdown_rows(map(in_markdown, heads), [list(map(in_markdown, row)) for row in rows])


def _which_games(setting: RecordedSetting) -> str:
    """Whose games the intervals over games are of, where that is not every seed."""
    partly = [one for one in setting.differences if 0 < len(one.games_seeds) < len(one.per_seed)]
    return " ".join(
        f"Games of {one.first} less {one.second}: of seeds {', '.join(map(str, one.games_seeds))} alone."
        for one in partly
    )
