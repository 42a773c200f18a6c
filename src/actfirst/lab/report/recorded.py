"""The figures of a report as one JSON file: per setting, method and training seed what the tables are made from.

It is enough to pair the runs anew, also with those of another place (`join.py`): it has the success of every run at
each game.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import model_validator

from actfirst.lab.compare import MethodRuns, Way, speedup
from actfirst.lab.paired import Difference, Ended, difference, rates_by_game
from actfirst.lab.report.sources import OURS, VANILLA, Setting, Sources
from actfirst.runs.evaluations import Evaluation
from actfirst.runs.record import Record, parse, read_object
from actfirst.runs.run import Run


class Success(Record):
    """An evaluated checkpoint. `by_game` is the success (%) at each game of the setting, None in older files."""

    success: float
    by_split: dict[str, float]
    by_kind: dict[str, float]
    rounds: float | None
    games: int
    evaluation_seeds: int
    by_game: tuple[float, ...] | None = None


class Point(NamedTuple):
    """Success (%) after an update."""

    update: int
    training_seconds: float
    success_rate: float


class RecordedRun(Record):
    """One training run; `speedup` is paired with vanilla's run of the same seed, made in the same place."""

    seed: int
    updates: int
    training_seconds: float
    speedup: float | None
    transitions: int | None
    alignment: dict[str, float] | None
    curve: tuple[Point, ...]
    final: Success | None

    @property
    def way(self) -> Way:
        return Way(self.curve, self.training_seconds)

    def ended(self, games: Sequence[str]) -> Ended | None:
        if self.final is None:
            return None
        known = self.final.by_game
        return Ended(self.final.success, dict(zip(games, known, strict=True)) if known is not None else {})


class RecordedMethod(Record):
    """The runs of one method."""

    method: str
    label: str
    runs: tuple[RecordedRun, ...]


class RecordedDifference(Difference):
    """A paired difference and whose it is."""

    first: str
    second: str
    shown: bool


class RecordedSetting(Record):
    """One environment with one student and its teacher."""

    setting: str
    others: dict[str, Success]
    game_ids: tuple[str, ...] = ()
    methods: tuple[RecordedMethod, ...]
    differences: tuple[RecordedDifference, ...] = ()

    @model_validator(mode="after")
    def _every_game(self) -> RecordedSetting:
        for method in self.methods:
            for run in method.runs:
                known = run.final.by_game if run.final is not None else None
                if known is not None and len(known) != len(self.game_ids):
                    raise ValueError(
                        f"{method.label} with seed {run.seed} has the success at {len(known)} games, "
                        f"game_ids names {len(self.game_ids)}"
                    )
        return self

    def paired(self) -> RecordedSetting:
        """With the differences of its runs: every method less vanilla, and ours less every other."""
        return self.model_copy(update={"differences": tuple(_differences(self))})


class Figures(Record):
    """The file."""

    settings: tuple[RecordedSetting, ...]
    machines: tuple[str, ...]


def figures_of(sources: Sources) -> Figures:
    return Figures(settings=tuple(map(recorded, sources.settings)), machines=sources.machines)


def recorded(setting: Setting) -> RecordedSetting:
    ends = [run.final for group in setting.groups for run in group.runs if run.final is not None]
    games = sorted({outcome.task_id for end in ends for outcome in end.outcomes})
    vanilla = setting.group(VANILLA)
    base = vanilla.by_seed() if vanilla is not None else {}
    return RecordedSetting(
        setting=setting.label,
        others={other.label: _success(other.result.result, ()) for other in setting.others},
        game_ids=tuple(games),
        methods=tuple(_method(group, base, games) for group in setting.groups),
    ).paired()


def read_figures(path: Path) -> Figures:
    return parse(read_object(path), Figures, str(path))


def _method(group: MethodRuns, base: Mapping[int, Run], games: Sequence[str]) -> RecordedMethod:
    runs = []
    for run in group.runs:
        pair = base.get(run.seed)
        runs.append(
            RecordedRun(
                seed=run.seed,
                updates=run.summary.updates,
                training_seconds=run.summary.training_seconds,
                speedup=speedup([pair], [run]).mean if pair is not None else None,
                transitions=sum(line.transitions for line in run.batches),
                alignment=run.alignment.rates() or None,
                curve=tuple(Point(one.update, one.training_seconds, one.success_rate) for one in run.curve),
                final=_success(run.final, games) if run.final is not None else None,
            )
        )
    return RecordedMethod(method=group.spec, label=group.label, runs=tuple(runs))


def _success(found: Evaluation, games: Sequence[str]) -> Success:
    def rates(by: str) -> dict[str, float]:
        return {name: metrics.success_rate.mean for name, metrics in getattr(found, by).items()}

    played = rates_by_game(found.outcomes)
    return Success(
        success=found.overall.success_rate.mean,
        by_split=rates("by_split"),
        by_kind=rates("by_kind"),
        rounds=found.overall.rounds.mean,
        games=found.overall.tasks,
        evaluation_seeds=len(found.overall.success_rate.per_seed),
        by_game=tuple(played[game] for game in games) if games and played.keys() == set(games) else None,
    )


def _differences(setting: RecordedSetting) -> Iterable[RecordedDifference]:
    ends = {
        method.label: {run.seed: end for run in method.runs if (end := run.ended(setting.game_ids)) is not None}
        for method in setting.methods
    }
    for first, second in pairs(setting):
        found = difference(ends[first.label], ends[second.label])
        if found is not None:
            yield RecordedDifference(
                first=first.label, second=second.label, shown=found.is_shown, **dict(found)
            )


def pairs(setting: RecordedSetting) -> list[tuple[RecordedMethod, RecordedMethod]]:
    """Every method less vanilla, and ours less every other; of variants of these two the first."""
    vanilla, ours = (
        next((one for one in setting.methods if one.method == name), None) for name in (VANILLA, OURS)
    )
    found = [(one, vanilla) for one in setting.methods if vanilla is not None and one is not vanilla]
    return found + [(ours, one) for one in setting.methods if ours is not None and one not in (ours, vanilla)]
