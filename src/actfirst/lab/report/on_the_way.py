"""Success at the checkpoints before the end, beside the end of vanilla's run with the same seed.

Nothing is interpolated: it tells who stands where vanilla ends after a part of the updates, and after what part of
vanilla's time. Checkpoints on the way may have been evaluated with fewer seeds than the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actfirst.lab.paired import Ended, difference
from actfirst.lab.report.cells import NOTHING
from actfirst.lab.report.differences import texts_of
from actfirst.lab.report.recorded import Point, RecordedRun, RecordedSetting
from actfirst.lab.report.sources import VANILLA
from actfirst.runs.evaluations import Statistic

HEADS = (
    "Method",
    "Updates",
    "Success (%)",
    "Sooner than vanilla ends",
    "Less vanilla's end",
    "Over seeds",
    "By seed",
)


def on_the_way(setting: RecordedSetting) -> Iterator[tuple[str, ...]]:
    """A row for each method and each update before its last that was evaluated; none without vanilla."""
    vanilla = next((one for one in setting.methods if one.method == VANILLA), None)
    ends = {run.seed: Ended(run.final.success, {}) for run in (vanilla.runs if vanilla else ()) if run.final}
    for method in setting.methods:
        inner = {point.update for run in method.runs for point in run.curve if 0 < point.update < run.updates}
        for update in sorted(inner):
            points = [(run, point) for run in method.runs for point in run.curve if point.update == update]
            found = difference({run.seed: Ended(one.success_rate, {}) for run, one in points}, ends)
            if found is not None:
                success = Statistic.over([point.success_rate for _, point in points]).text(1)
                mean, over_seeds, _, by_seed = texts_of(found)
                yield method.label, str(update), success, _sooner(points), mean, over_seeds, by_seed


def _sooner(points: Sequence[tuple[RecordedRun, Point]]) -> str:
    """Vanilla's whole time, in the place where both ran, over the time until then."""
    known = [
        run.speedup * run.training_seconds / point.training_seconds
        for run, point in points
        if run.speedup is not None
    ]
    return Statistic.over(known).text(2) if known else NOTHING
