"""Task-performance metrics and their aggregation over evaluation seeds.

Paper, "Evaluation Metrics" and "Evaluation Protocols": SR, Score and Round per seed; mean and sample standard
deviation over seeds; by split, by task type and over all tasks.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from actfirst.runs.evaluations import Evaluation, Metrics, Outcome, Statistic


def summarise(outcomes: Sequence[Outcome], seconds: float) -> Evaluation:
    """Aggregate outcomes of one or more seeds over the same tasks."""
    return Evaluation(
        overall=_metrics(outcomes),
        by_split=_grouped(outcomes, lambda outcome: outcome.split),
        by_kind=_grouped(outcomes, lambda outcome: outcome.kind),
        errors=sum(outcome.error is not None for outcome in outcomes),
        seconds=seconds,
        outcomes=tuple(outcomes),
    )


def _grouped(outcomes: Iterable[Outcome], group: Callable[[Outcome], str]) -> dict[str, Metrics]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[group(outcome)].append(outcome)
    return {name: _metrics(groups[name]) for name in sorted(groups)}


def _metrics(outcomes: Sequence[Outcome]) -> Metrics:
    seeds = sorted({outcome.seed for outcome in outcomes})
    by_seed = [[outcome for outcome in outcomes if outcome.seed == seed] for seed in seeds]
    return Metrics(
        tasks=len({outcome.task_id for outcome in outcomes}),
        success_rate=Statistic.over([100.0 * statistics.fmean(o.success for o in part) for part in by_seed]),
        score=Statistic.over([statistics.fmean(o.score for o in part) for part in by_seed]),
        rounds=Statistic.over([statistics.fmean(o.turns for o in part) for part in by_seed]),
    )
