"""Methods side by side: the statistics of `actfirst compare`, as pure functions of run records.

Every ratio is paired by training seed and only then averaged, because runs of one seed share task order and,
run one after the other, the state of the machine. Deviations are sample standard deviations over seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actfirst.errors import ConfigError
from actfirst.evaluate.results import Statistic
from actfirst.runs.run_record import RunRecord, seconds_until


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that every run has (None: not measured), and how a table shows it."""

    key: str
    heading: str
    digits: int
    of: Callable[[RunRecord], float | None]


def _stage(name: str) -> Callable[[RunRecord], float | None]:
    return lambda run: run.stages.get(name, 0.0)


def _rate(name: str) -> Callable[[RunRecord], float | None]:
    return lambda run: run.alignment.rates().get(name)


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("final_success", "final SR (%)", 1, lambda run: run.final_success),
    Quantity("training_seconds", "training time (s)", 1, lambda run: run.training_seconds),
    Quantity("transitions", "environment transitions", 0, lambda run: run.transitions),
    Quantity("fast_tokens", "fast-action tokens", 0, lambda run: run.fast_tokens),
    Quantity("full_tokens", "full-response tokens", 0, lambda run: run.full_tokens),
    Quantity("responses_generated", "full responses generated", 0, lambda run: run.responses_generated),
    Quantity("responses_trained", "full responses trained on", 0, lambda run: run.responses_trained),
    Quantity("rollout_seconds", "waiting for rollouts (s)", 1, _stage("rollout")),
    Quantity("update_seconds", "updating (s)", 1, _stage("update")),
    Quantity("scoring_seconds", "teacher scoring (s)", 1, lambda run: run.scoring_seconds),
    Quantity("first_action", "first-action alignment (%)", 1, _rate("first_action")),
    Quantity("full_trajectory", "full-trajectory alignment (%)", 1, _rate("full_trajectory")),
    Quantity("turn_coverage", "aligned-turn coverage (%)", 1, _rate("turn_coverage")),
)


@dataclass(frozen=True)
class MethodRuns:
    """The runs of one method, one per training seed. `spec` is what was asked for on the command line."""

    label: str
    spec: str
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True)
class Reach:
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
class MethodResult:
    """One method in the comparison."""

    label: str
    spec: str
    runs: tuple[RunRecord, ...]
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
    ordered = [_by_seed(method) for method in methods]
    seeds = tuple(run.seed for run in ordered[0].runs)
    for method in ordered:
        theirs = tuple(run.seed for run in method.runs)
        if theirs != seeds:
            raise ConfigError(
                f"{method.label} ran with seeds {theirs}, {ordered[0].label} with {seeds}; pair them"
            )
    first = ordered[0]
    finals = [run.final_success for run in first.runs if run.final_success is not None]
    target = statistics.fmean(finals) if finals else None
    return Comparison(tuple(_result(method, first, target) for method in ordered), seeds, target)


def spread_over_time(runs: Sequence[RunRecord]) -> list[tuple[float, float, float, float]]:
    """Seconds, mean, lowest and highest success at every update at which all runs were evaluated."""
    curves = [{point.update: point for point in run.curve} for run in runs]
    shared = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
    spread = []
    for update in shared:
        points = [curve[update] for curve in curves]
        values = [point.success for point in points]
        seconds = statistics.fmean(point.seconds for point in points)
        spread.append((seconds, statistics.fmean(values), min(values), max(values)))
    return spread


def _result(method: MethodRuns, first: MethodRuns, target: float | None) -> MethodResult:
    pairs = list(zip(first.runs, method.runs, strict=True))
    return MethodResult(
        label=method.label,
        spec=method.spec,
        runs=method.runs,
        quantities=_quantities(method.runs),
        speedup=Statistic.over([base.training_seconds / run.training_seconds for base, run in pairs]),
        reach=None if target is None else _reach(pairs, target),
    )


def _quantities(runs: Sequence[RunRecord]) -> dict[str, Statistic]:
    found: dict[str, Statistic] = {}
    for quantity in QUANTITIES:
        values = [value for run in runs if (value := quantity.of(run)) is not None]
        if len(values) == len(runs):
            found[quantity.key] = Statistic.over(values)
    return found


def _reach(pairs: Sequence[tuple[RunRecord, RunRecord]], target: float) -> Reach:
    times = [(seconds_until(base.curve, target), seconds_until(run.curve, target)) for base, run in pairs]
    own = [
        run.training_seconds if theirs is None else theirs
        for (_, run), (_, theirs) in zip(pairs, times, strict=True)
    ]
    arrived = sum(theirs is not None for _, theirs in times)
    sooner = None
    if arrived == len(pairs) and min(own) > 0:
        bases = [
            base.training_seconds if first is None else first
            for (base, _), (first, _) in zip(pairs, times, strict=True)
        ]
        sooner = Statistic.over([base / seconds for base, seconds in zip(bases, own, strict=True)])
    return Reach(Statistic.over(own), arrived, sooner, any(first is None for first, _ in times))


def _by_seed(method: MethodRuns) -> MethodRuns:
    return MethodRuns(method.label, method.spec, tuple(sorted(method.runs, key=lambda run: run.seed)))


def _method_json(method: MethodResult) -> dict[str, object]:
    reach = method.reach
    return {
        "label": method.label,
        "spec": method.spec,
        "speedup": _statistic_json(method.speedup),
        "reach": None
        if reach is None
        else {
            "seconds": _statistic_json(reach.seconds),
            "arrived": reach.arrived,
            "sooner": _statistic_json(reach.sooner),
            "sooner_is_lower_bound": reach.sooner_is_lower_bound,
        },
        "quantities": {key: _statistic_json(value) for key, value in method.quantities.items()},
        "runs": [_run_json(run) for run in method.runs],
    }


def _run_json(run: RunRecord) -> dict[str, object]:
    return {
        "folder": run.folder.name,
        "seed": run.seed,
        "updates": run.updates,
        "curve": [[point.update, point.seconds, point.success] for point in run.curve],
        "seconds_by_stage": run.stages,
        "teacher_success": run.teacher,
    }


def _statistic_json(value: Statistic | None) -> dict[str, object] | None:
    if value is None:
        return None
    return {"mean": value.mean, "deviation": value.deviation, "per_seed": list(value.per_seed)}
