"""Paired differences of success with 95 % intervals, and all figures of runs as one JSON file."""

from __future__ import annotations

from actfirst.lab.compare import MethodRuns, speedup
from actfirst.lab.paired import difference
from actfirst.lab.report.cells import NOTHING, Cell, Number, Table, Words
from actfirst.lab.report.sources import OURS, VANILLA, Setting, Sources
from actfirst.runs.evaluations import Evaluation
from actfirst.runs.run import Run


def differences_table(setting: Setting, place: int) -> Table | None:
    """Every method less vanilla, and ours less every other."""
    rows: list[tuple[Cell, ...]] = []
    for first, second in _pairs(setting):
        found = difference(first.runs, second.runs)
        if found is None:
            continue
        paths = (*first.paths, *second.paths)
        by_seed = ", ".join(f"{value:+.1f}" for value in found.per_seed.values())
        intervals = (one.text() if one else NOTHING for one in (found.over_seeds, found.over_games))
        figures = (Number(text, paths) for text in (f"{found.mean:+.1f}", *intervals, by_seed))
        verdict = Words("yes" if found.is_shown else "noise")
        rows.append((Words(f"{first.label} less {second.label}"), *figures, verdict))
    if not rows:
        return None
    return Table(
        slug=f"differences-{place}",
        title=f"Paired differences of success, {setting.label}",
        note="Points of SR at the end, paired by training seed. The first interval (95 %) is Student's t over training "
        "seeds, the second is over games. A difference is shown where both leave out zero.",
        heads=("Methods", "Difference", "Over seeds", "Over games", "By seed", "Shown"),
        rows=tuple(rows),
    )


def figures_of(sources: Sources) -> dict[str, object]:
    """Per setting, method and training seed what the tables are made from, and the paired differences."""
    return {"settings": [_setting(one) for one in sources.settings], "machines": list(sources.machines)}


def _setting(setting: Setting) -> dict[str, object]:
    return {
        "setting": setting.label,
        "others": {other.label: _evaluation(other.result.result) for other in setting.others},
        "methods": [
            {"method": group.spec, "label": group.label, "runs": [_run(run, setting) for run in group.runs]}
            for group in setting.groups
        ],
        "differences": [
            {"first": first.label, "second": second.label, **found.to_json(), "shown": found.is_shown}
            for first, second in _pairs(setting)
            if (found := difference(first.runs, second.runs)) is not None
        ],
    }


def _pairs(setting: Setting) -> list[tuple[MethodRuns, MethodRuns]]:
    vanilla, ours = setting.group(VANILLA), setting.group(OURS)
    pairs = [(one, vanilla) for one in setting.groups if vanilla is not None and one is not vanilla]
    pairs += [(ours, one) for one in setting.groups if ours is not None and one not in (ours, vanilla)]
    return pairs


def _run(run: Run, setting: Setting) -> dict[str, object]:
    base = setting.group(VANILLA)
    pair = base.by_seed().get(run.seed) if base is not None else None
    return {
        "seed": run.seed,
        "updates": run.summary.updates,
        "training_seconds": run.summary.training_seconds,
        "speedup": speedup([pair], [run]).mean if pair is not None else None,
        "transitions": sum(line.transitions for line in run.batches),
        "alignment": run.alignment.rates() or None,
        "curve": [[point.update, point.training_seconds, point.success_rate] for point in run.curve],
        "final": _evaluation(run.final) if run.final is not None else None,
    }


def _evaluation(found: Evaluation) -> dict[str, object]:
    def rates(by: str) -> dict[str, float]:
        return {name: metrics.success_rate.mean for name, metrics in getattr(found, by).items()}

    return {
        "success": found.overall.success_rate.mean,
        "by_split": rates("by_split"),
        "by_kind": rates("by_kind"),
        "rounds": found.overall.rounds.mean,
        "games": found.overall.tasks,
        "evaluation_seeds": len(found.overall.success_rate.per_seed),
    }
