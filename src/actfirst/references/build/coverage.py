"""What a store covers: tasks, scores, lengths, sources, and what is wrong with the rest."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.references.store import ReferenceStore

_SUCCESS = 99.999  # paper, appendix "Evaluation Metrics"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many actions references have."""

    least: int
    median: float
    mean: float
    ninth_decile: int
    most: int


@dataclass(frozen=True, slots=True)
class Group:
    """Attempted tasks of one kind, or of all. A reference over the limit has more actions than an episode has turns."""

    attempted: int
    covered: int
    successful: int
    within_limit: int
    unreliable: int
    mean_score: float
    mean_actions: float

    @property
    def below_full_score(self) -> int:
        return self.covered - self.successful

    @property
    def over_limit(self) -> int:
        return self.covered - self.within_limit


@dataclass(frozen=True, slots=True)
class Coverage:
    """A store in figures. `tasks` counts the tasks of the splits it holds attempts of: as many as the largest world had
    for which it was built, and at least those that were attempted."""

    tasks: int
    turn_limit: int
    overall: Group
    by_kind: dict[str, Group]
    lengths: Lengths | None
    histogram: dict[str, int]
    sources: dict[str, int]
    reasons: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Row:
    """An attempt without its texts. `score` is None where there is no reference."""

    score: float | None = None
    actions: int = 0
    reliable: bool = True


def coverage(store: ReferenceStore) -> Coverage:
    """Count what is in a store; its lines are read one at a time."""
    kinds: dict[str, list[_Row]] = defaultdict(list)
    splits: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for attempt in store.attempts():
        splits[attempt.split] += 1
        reference = attempt.reference
        if reference is None:
            reasons[_NUMBER.sub("#", attempt.reason)] += 1
            kinds[attempt.kind].append(_Row())
        else:
            sources[reference.source] += 1
            row = _Row(reference.score, len(reference.steps), reference.reliable)
            kinds[attempt.kind].append(row)
    rows = [row for kind in kinds.values() for row in kind]
    limit = store.header.turn_limit
    lengths = sorted(row.actions for row in rows if row.score is not None)
    return Coverage(
        tasks=sum(max(store.header.tasks.get(split, 0), attempted) for split, attempted in splits.items()),
        turn_limit=limit,
        overall=_group(rows, limit),
        by_kind={kind: _group(kinds[kind], limit) for kind in sorted(kinds)},
        lengths=_lengths(lengths),
        histogram=_histogram(lengths),
        sources=dict(sources.most_common()),
        reasons=dict(reasons.most_common()),
    )


def _group(rows: Sequence[_Row], limit: int) -> Group:
    covered = [row for row in rows if row.score is not None]
    scores = [row.score for row in rows if row.score is not None]
    return Group(
        attempted=len(rows),
        covered=len(covered),
        successful=sum(score >= _SUCCESS for score in scores),
        within_limit=sum(row.actions <= limit for row in covered),
        unreliable=sum(not row.reliable for row in covered),
        mean_score=statistics.fmean(scores) if scores else 0.0,
        mean_actions=statistics.fmean(row.actions for row in covered) if covered else 0.0,
    )


def _lengths(ordered: Sequence[int]) -> Lengths | None:
    if not ordered:
        return None
    return Lengths(
        least=ordered[0],
        median=statistics.median(ordered),
        mean=statistics.fmean(ordered),
        ninth_decile=ordered[min(len(ordered) - 1, (9 * len(ordered)) // 10)],
        most=ordered[-1],
    )


def _histogram(ordered: Sequence[int], width: int = 5) -> dict[str, int]:
    """References by number of actions, in steps of `width`."""
    counted = Counter((length - 1) // width for length in ordered)
    return {f"{n * width + 1}-{(n + 1) * width}": counted[n] for n in sorted(counted)}
