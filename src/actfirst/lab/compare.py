"""Methods side by side: the statistics of `actfirst compare`, as pure functions of runs.

Every ratio is paired by training seed and only then averaged, because runs of one seed share task order and,
run one after the other, the state of the machine. Deviations are sample standard deviations over seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from actfirst.errors import ConfigError
from actfirst.runs.evaluations import Statistic
from actfirst.runs.lines import EvaluationPoint
from actfirst.runs.record import Record
from actfirst.runs.run import Run


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that every run has (None: not measured), and how a table shows it."""

    key: str
    heading: str
    digits: int
    of: Callable[[Run], float | None]


def _stage(name: str) -> Callable[[Run], float | None]:
    return lambda run: run.summary.seconds_by_stage.get(name, 0.0)


def _total(name: str) -> Callable[[Run], float | None]:
    return lambda run: sum(getattr(line, name) for line in run.batches)


def _rate(name: str) -> Callable[[Run], float | None]:
    return lambda run: run.alignment.rates().get(name)


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("final_success", "final SR (%)", 1, lambda run: run.final_success),
    Quantity("training_seconds", "training time (s)", 1, lambda run: run.summary.training_seconds),
    Quantity("transitions", "environment transitions", 0, _total("transitions")),
    Quantity("fast_tokens", "fast-action tokens", 0, _total("fast_tokens")),
    Quantity("full_tokens", "full-response tokens", 0, _total("full_tokens")),
    Quantity("responses_generated", "full responses generated", 0, lambda run: run.summary.ledger.generated),
    Quantity("responses_trained", "full responses trained on", 0, lambda run: run.summary.ledger.trained),
    Quantity("rollout_seconds", "waiting for rollouts (s)", 1, _stage("rollout")),
    Quantity("update_seconds", "updating (s)", 1, _stage("update")),
    Quantity("scoring_seconds", "teacher scoring (s)", 1, _total("scoring_seconds")),
    Quantity("first_action", "first-action alignment (%)", 1, _rate("first_action")),
    Quantity("full_trajectory", "full-trajectory alignment (%)", 1, _rate("full_trajectory")),
    Quantity("turn_coverage", "aligned-turn coverage (%)", 1, _rate("turn_coverage")),
)


class CurvePoint(Protocol):
    """Success (%) after so many training seconds."""

    @property
    def training_seconds(self) -> float: ...
    @property
    def success_rate(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Way:
    """How success grew in one run, and the seconds of its whole training."""

    curve: Sequence[CurvePoint]
    seconds: float


@dataclass(frozen=True)
class MethodRuns:
    """The runs of one method under equal settings, one per training seed. `spec` is how it was asked for: its name in
    the table of methods, on a command line perhaps with settings of its own."""

    label: str
    spec: str
    runs: tuple[Run, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(run.folder for run in self.runs)

    def by_seed(self) -> dict[int, Run]:
        return {run.seed: run for run in self.runs}


class Reach(Record):
    """How soon a method reaches the first method's final mean success.

    A run that never does counts with its whole training time, which is too little: `seconds` is then a lower
    bound. `sooner` is the first method's seconds over these, paired by seed; None unless all runs of the method
    arrive, and a lower bound where a run of the first method does not.
    """

    seconds: Statistic
    arrived: int
    sooner: Statistic | None
    sooner_is_lower_bound: bool


@dataclass(frozen=True)
class MethodResult(MethodRuns):
    """One method in the comparison."""

    quantities: dict[str, Statistic]
    speedup: Statistic
    reach: Reach | None


@dataclass(frozen=True)
class Comparison:
    """All methods; the others are compared with the first, whose final mean success is `target`."""

    methods: tuple[MethodResult, ...]
    seeds: tuple[int, ...]
    target: float | None

    def to_json(self) -> dict[str, object]:
        return {
            "seeds": list(self.seeds),
            "target_success": self.target,
            "methods": [_method_json(method) for method in self.methods],
        }


def compare(methods: Sequence[MethodRuns]) -> Comparison:
    """Compare methods that were run with the same training seeds."""
    if not methods:
        raise ConfigError("nothing to compare: name at least one method")
    first, seeds = methods[0], tuple(sorted(methods[0].by_seed()))
    for method in methods:
        theirs = tuple(sorted(run.seed for run in method.runs))
        if theirs != seeds:
            raise ConfigError(
                f"{method.label} ran with seeds {theirs}, {first.label} with {seeds}; run them with the same seeds"
            )
    finals = [run.final_success for run in first.runs if run.final_success is not None]
    target = statistics.fmean(finals) if finals else None
    return Comparison(tuple(_result(method, first, target) for method in methods), seeds, target)


def spread_over_time(runs: Sequence[Run]) -> list[tuple[float, float, float, float]]:
    """Seconds, mean, lowest and highest success at every update at which all runs were evaluated. The last update is
    over when training is: what followed its evaluation (a checkpoint) is training time too."""
    curves = [{point.update: point for point in run.curve} for run in runs]
    shared = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    spread = []
    for update in shared:
        points = [curve[update] for curve in curves]
        values = [point.success_rate for point in points]
        seconds = statistics.fmean(map(seconds_at, runs, points))
        spread.append((seconds, statistics.fmean(values), min(values), max(values)))
    return spread


def seconds_at(run: Run, point: EvaluationPoint) -> float:
    last = run.finished and point.update == run.summary.updates
    return run.summary.training_seconds if last else point.training_seconds


def speedup(base: Sequence[Run], runs: Sequence[Run]) -> Statistic:
    """Training time of the base over that of the other, pair by pair."""
    pairs = zip(base, runs, strict=True)
    return Statistic.over([one.summary.training_seconds / two.summary.training_seconds for one, two in pairs])


def seconds_until(curve: Sequence[CurvePoint], target: float) -> float | None:
    """Training seconds at which success first reaches `target`, linear between evaluations; None if never."""
    for place, point in enumerate(curve):
        if point.success_rate >= target:
            if place == 0:
                return point.training_seconds
            before = curve[place - 1]
            share = (target - before.success_rate) / (point.success_rate - before.success_rate)
            return before.training_seconds + share * (point.training_seconds - before.training_seconds)
    return None


def success_at(run: Run, seconds: float) -> float | None:
    """Success after so many training seconds, linear between evaluations; that of the end for a run which is over by
    then, None for one that was not evaluated."""
    if not run.curve:
        return None
    before = run.curve[0]
    for point in run.curve[1:]:
        start, end = before.training_seconds, seconds_at(run, point)
        if start <= seconds < end:
            return before.success_rate + (point.success_rate - before.success_rate) * (seconds - start) / (
                end - start
            )
        before = point
    return run.final_success


def _way(run: Run) -> Way:
    return Way(run.curve, run.summary.training_seconds)


def _result(method: MethodRuns, first: MethodRuns, target: float | None) -> MethodResult:
    seeds = sorted(first.by_seed())
    base, runs = ([one.by_seed()[seed] for seed in seeds] for one in (first, method))
    measured = {one.key: [value for run in runs if (value := one.of(run)) is not None] for one in QUANTITIES}
    return MethodResult(
        label=method.label,
        spec=method.spec,
        runs=tuple(runs),
        quantities={
            key: Statistic.over(values) for key, values in measured.items() if len(values) == len(runs)
        },
        speedup=speedup(base, runs),
        reach=None if target is None else reach([*map(_way, base)], [*map(_way, runs)], target),
    )


def reach(base: Sequence[Way], ways: Sequence[Way], target: float) -> Reach:
    """How soon each of `ways` reaches `target`, paired with `base`, whose target it is."""
    theirs, own = ([seconds_until(way.curve, target) for way in part] for part in (base, ways))
    base_seconds, seconds = (
        [way.seconds if time is None else time for way, time in zip(part, times, strict=True)]
        for part, times in ((base, theirs), (ways, own))
    )
    sooner = None
    if None not in own and min(seconds) > 0:
        sooner = Statistic.over([one / two for one, two in zip(base_seconds, seconds, strict=True)])
    return Reach(
        seconds=Statistic.over(seconds),
        arrived=sum(time is not None for time in own),
        sooner=sooner,
        sooner_is_lower_bound=None in theirs,
    )


def _method_json(method: MethodResult) -> dict[str, object]:
    return {
        "label": method.label,
        "spec": method.spec,
        "speedup": method.speedup.to_json(),
        "reach": method.reach and method.reach.to_json(),
        "quantities": {key: value.to_json() for key, value in method.quantities.items()},
        "runs": [
            {
                "folder": run.folder.name,
                "seed": run.seed,
                "updates": run.summary.updates,
                "curve": [[point.update, point.training_seconds, point.success_rate] for point in run.curve],
                "seconds_by_stage": run.summary.seconds_by_stage,
                "teacher_success": run.summary.success_rate.teacher,
            }
            for run in method.runs
        ],
    }
