"""Reference alignment over a run: windowed and cumulative (paper, "Reference Alignment During Training").

A windowed rate at an update sums the counts of the latest ten completed rollout batches, or of all if there are fewer;
the cumulative one sums all batches that were completed by the last update.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from actfirst.rollout.alignment_counts import AlignmentCounts
from actfirst.runs.lines import BatchLine, Line, UpdateLine, read_lines

WINDOW = 10
RATES = ("first_action", "full_trajectory", "turn_coverage")


@dataclass(frozen=True, slots=True)
class AlignmentPoint:
    """The rates (percent) of the window that ends at an update; empty before any guided rollout."""

    update: int
    rates: dict[str, float]


@dataclass(frozen=True, slots=True)
class Alignment:
    """A run's alignment: one point per update, and the rates over all of it."""

    points: tuple[AlignmentPoint, ...]
    cumulative: dict[str, float]


def alignment_over_updates(lines: Iterable[Line], window: int = WINDOW) -> Alignment:
    """From the lines of metrics.jsonl, in their order."""
    latest: deque[AlignmentCounts] = deque(maxlen=window)
    total = AlignmentCounts()
    points: list[AlignmentPoint] = []
    finished = AlignmentCounts()
    for line in lines:
        if isinstance(line, BatchLine):
            latest.append(line.alignment)
            total += line.alignment
        elif isinstance(line, UpdateLine):
            points.append(AlignmentPoint(line.update, sum(latest, AlignmentCounts()).rates()))
            finished = total
    return Alignment(tuple(points), finished.rates())


def alignment_of(folder: Path) -> Alignment:
    """The alignment of the run in a folder."""
    return alignment_over_updates(read_lines(folder))
