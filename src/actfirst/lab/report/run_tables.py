"""Tables of what runs did on the way: success over training, time to quality, throughput, alignment, latency."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from actfirst.errors import RunFolderError
from actfirst.lab.alignment_rates import RATES
from actfirst.lab.compare import MethodResult, MethodRuns, compare, seconds_at, success_at
from actfirst.lab.latency import profile
from actfirst.lab.report.cells import NOTHING, Cell, Table, Words, number
from actfirst.lab.report.sources import OURS, VANILLA, Setting
from actfirst.lab.spread import Percentiles
from actfirst.lab.throughput import EARLY_SECONDS, RunTimes, decompose, times_of
from actfirst.records import ActionSource
from actfirst.runs.evaluations import Statistic
from actfirst.runs.lines import AlignmentCounts


def reach_table(setting: Setting, place: int) -> Table | None:
    """How soon each method reaches vanilla's final success, paired by seed; methods that lack a seed are left out."""
    base = setting.group(VANILLA)
    if base is None:
        return None
    seeds = list(base.by_seed())
    whole = [base, *(one for one in setting.groups if one is not base and set(seeds) <= set(one.by_seed()))]
    found = compare(
        [MethodRuns(one.label, one.spec, tuple(one.by_seed()[seed] for seed in seeds)) for one in whole]
    )
    if found.target is None:
        return None
    return Table(
        slug=f"reach-{place}",
        title=f"Time to quality, {setting.label}",
        note=f"Training seconds until success first reaches {found.target:.1f} %, the final mean of {base.label}; "
        "linear between evaluated checkpoints. ≥: runs that never do count with their whole time.",
        heads=("Method", "Seconds", "Sooner by"),
        rows=tuple((Words(one.label), *_reach_cells(one, found.methods[0])) for one in found.methods),
    )


def _reach_cells(method: MethodResult, base: MethodResult) -> tuple[Cell, Cell]:
    reach, runs = method.reach, len(method.runs)
    if reach is None or not reach.arrived:
        return Words("not reached"), Words(NOTHING)
    bound = "≥ " if reach.arrived < runs else ""
    arrived = f"({reach.arrived} of {runs} runs)"
    seconds = number(reach.seconds, 1, method.paths, before=bound, aside=arrived)
    bound = "≥ " if reach.sooner_is_lower_bound else ""
    return seconds, number(reach.sooner, 2, [*method.paths, *base.paths], before=bound, unit="×")


def curve_table(setting: Setting, place: int) -> Table | None:
    """Success at the evaluated checkpoints, and at the time at which ours is over."""
    curves = [(group, _points(group)) for group in setting.groups]
    updates = sorted({update for _, points in curves for update in points})
    if len(updates) < 2:
        return None
    heads = ["Method", *(f"Update {update}" for update in updates)]
    rows: list[tuple[Cell, ...]] = [
        (Words(group.label), *(_point_cell(group, points.get(update)) for update in updates))
        for group, points in curves
    ]
    note = (
        "Success (%) after so many updates, mean and deviation over training seeds, and in brackets the training "
        "time by then. Checkpoints on the way may have fewer evaluation seeds than the last."
    )
    if (ours := setting.group(OURS)) is not None:
        end = statistics.fmean(run.summary.training_seconds for run in ours.runs)
        heads.append(f"After {end:.0f} s")
        rows = [(*row, _at_time(group, end)) for row, (group, _) in zip(rows, curves, strict=True)]
        note += (
            f" The last column is at equal time, {end:.0f} s, when {ours.label} ends: linear between checkpoints, and "
            "the end of what was over before."
        )
    return Table(
        slug=f"curve-{place}",
        title=f"Success over training, {setting.label}",
        note=note,
        heads=tuple(heads),
        rows=tuple(rows),
    )


def _points(group: MethodRuns) -> dict[int, tuple[float, Statistic]]:
    """Mean seconds and success by update, where all runs of the method were evaluated."""
    by_run = [{point.update: point for point in run.curve} for run in group.runs]
    shared = set.intersection(*map(set, by_run)) if by_run else set()
    return {
        update: (
            statistics.fmean(seconds_at(run, one[update]) for run, one in zip(group.runs, by_run, strict=True)),
            Statistic.over([one[update].success_rate for one in by_run]),
        )
        for update in shared
    }


def _point_cell(group: MethodRuns, found: tuple[float, Statistic] | None) -> Cell:
    if found is None:
        return Words(NOTHING)
    seconds, success = found
    return number(success, 1, group.paths, aside=f"({seconds:.0f} s)")


def _at_time(group: MethodRuns, seconds: float) -> Cell:
    found = [value for run in group.runs if (value := success_at(run, seconds)) is not None]
    return number(Statistic.over(found) if len(found) == len(group.runs) else None, 1, group.paths)


def alignment_table(setting: Setting, place: int) -> Table | None:
    """Cumulative reference alignment of the guided methods."""
    rows: list[tuple[Cell, ...]] = []
    covered = any(run.covered is not None for group in setting.groups for run in group.runs)
    for group in setting.groups:
        rates = AlignmentCounts.sum(run.alignment for run in group.runs).rates()
        if rates:
            cells = [number(rates[name], 2, group.paths) for name in RATES]
            rows.append((Words(group.label), *cells, *([_covered(group)] if covered else [])))
    if not rows:
        return None
    heads = ("Method", "First action (%)", "Full trajectory (%)", "Turn coverage (%)")
    return Table(
        slug=f"alignment-{place}",
        title=f"Cumulative reference alignment, {setting.label}",
        note="Counts over all rollout batches. First action and full trajectory are per guided rollout; coverage is of "
        "all executed turns, fallback included."
        + (" Tasks are those that have a reference in the end, where rollouts are the references." * covered),
        heads=(*heads, "Tasks (%)") if covered else heads,
        rows=tuple(rows),
    )


def _covered(group: MethodRuns) -> Cell:
    found = [run.covered for run in group.runs if run.covered is not None]
    return number(statistics.fmean(found), 1, group.paths) if found else Words(NOTHING)


def throughput_table(setting: Setting, place: int) -> Table | None:
    """Environment transitions per second, and what the speedup over vanilla consists of."""
    times = {group.label: found for group in setting.groups if (found := _times(group))}
    if not times:
        return None
    early = early_window([run.full.seconds for runs in times.values() for run in runs.values()])
    base = setting.group(VANILLA)
    rows = tuple(
        (
            Words(group.label),
            *_throughput_cells(group, list(times[group.label].values()), early),
            *_parts(group, base, times),
        )
        for group in setting.groups
        if group.label in times
    )
    return Table(
        slug=f"throughput-{place}",
        title=f"Environment-transition throughput, {setting.label}",
        note="Means over runs. The full window begins with the first rollout and ends with the last update; the early "
        f"one is its first {early:g} s. Speedup of a window = throughput gain / transitions kept.",
        heads=(
            "Method",
            "Transitions",
            "Window (s)",
            "Steps / s",
            "Early transitions",
            "Early steps / s",
            "Throughput gain",
            "Fewer transitions (%)",
            "Speedup of the window",
        ),
        rows=rows,
    )


def early_window(windows: Sequence[float]) -> float:
    """The paper's 600 s, or a quarter of the shortest run where runs are short."""
    return min(EARLY_SECONDS, max(1.0, float(round(min(windows) / 4.0))))


def latency_table(setting: Setting, place: int) -> Table | None:
    """How long turns take, and how much of it is reasoning."""
    rows: list[tuple[Cell, ...]] = []
    for group in setting.groups:
        turns = (turn for run in group.runs for line in run.episodes() for turn in line.turns)
        found = profile([turn for turn in turns if turn.source is not ActionSource.REFERENCE])
        if found is not None:
            cells = [
                number(float(found.turns), 0, group.paths),
                *_range(found.seconds, 3, group),
                *_range(found.reasoning, 1, group),
            ]
            rows.append((Words(group.label), *cells))
    if not rows:
        return None
    return Table(
        slug=f"latency-{place}",
        title=f"Latency of turns during training, {setting.label}",
        note="From a turn's context to the next observation, other rollouts under way; replayed turns are left out. "
        "The share of reasoning is of turns that think before they act: tokens up to the end of reasoning, of all "
        "tokens that the response has.",
        heads=("Method", "Turns", "Seconds, mean", "5 % to 95 %", "Reasoning (%)", "5 % to 95 %"),
        rows=tuple(rows),
    )


def _range(found: Percentiles | None, digits: int, group: MethodRuns) -> tuple[Cell, Cell]:
    if found is None:
        return Words(NOTHING), Words(NOTHING)
    low = number(found.p5, digits, group.paths, aside=f"to {found.p95:.{digits}f}")
    return number(found.mean, digits, group.paths), low


def _times(group: MethodRuns) -> dict[int, RunTimes]:
    """By seed; empty if a run of the group did not keep its times."""
    try:
        return {run.seed: times_of(run) for run in group.runs}
    except RunFolderError:
        return {}


def _throughput_cells(group: MethodRuns, found: Sequence[RunTimes], early_seconds: float) -> list[Cell]:
    mean, paths = statistics.fmean, group.paths
    early = [window for one in found if (window := one.early(early_seconds)) is not None]
    return [
        number(mean(one.full.transitions for one in found), 0, paths),
        number(mean(one.full.seconds for one in found), 1, paths),
        number(mean(one.full.rate for one in found), 2, paths),
        number(mean(one.transitions for one in early) if early else None, 0, paths),
        number(mean(one.rate for one in early) if early else None, 2, paths),
    ]


def _parts(
    group: MethodRuns, base: MethodRuns | None, times: Mapping[str, Mapping[int, RunTimes]]
) -> list[Cell]:
    """Paired by seed with vanilla."""
    theirs = times.get(base.label, {}) if base is not None and base is not group else {}
    seeds = [seed for seed in times[group.label] if seed in theirs]
    if base is None or not seeds:
        return [Words(NOTHING)] * 3
    found = [decompose(theirs[seed].full, times[group.label][seed].full) for seed in seeds]
    paths = [one.by_seed()[seed].folder for one in (group, base) for seed in seeds]
    return [
        number(statistics.fmean(one.throughput for one in found), 2, paths, unit="×"),
        number(statistics.fmean(one.fewer for one in found), 1, paths),
        number(statistics.fmean(one.speedup for one in found), 2, paths, unit="×"),
    ]
