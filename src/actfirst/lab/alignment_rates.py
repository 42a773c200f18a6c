"""Reference alignment over a run (paper, "Reference Alignment During Training").

A windowed rate at an update sums the counts of the latest ten completed rollout batches, or of all if there are fewer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from actfirst.runs.lines import AlignmentCounts, BatchLine, Line, UpdateLine

WINDOW = 10
RATES = ("first_action", "full_trajectory", "turn_coverage")


def alignment_over_updates(lines: Iterable[Line], window: int = WINDOW) -> dict[int, dict[str, float]]:
    """The rates (percent) of the window that ends at each update, from the lines of metrics.jsonl in their order; empty
    before any guided rollout."""
    latest: deque[AlignmentCounts] = deque(maxlen=window)
    rates: dict[int, dict[str, float]] = {}
    for line in lines:
        if isinstance(line, BatchLine):
            latest.append(line.alignment)
        elif isinstance(line, UpdateLine):
            rates[line.update] = AlignmentCounts.sum(latest).rates()
    return rates
