"""The samples of an update as micro-batches of several ranks: within the token budget, and evenly loaded.

All ranks go through the same number of steps, because gathering weights takes all of them. Which rank computes what
has no effect on the result but for rounding.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import TypeAlias

from actfirst.learning.packing import input_length
from actfirst.records import TurnSample

Step: TypeAlias = list[list[TurnSample]]


def balanced_steps(samples: Sequence[TurnSample], token_budget: int, ranks: int) -> list[Step]:
    """Micro-batches as [step][rank], in as few steps as the budget allows.

    Samples without a supervised token are left out. A rank for which nothing is left has an empty list; a sample
    that is longer than the budget is alone.
    """
    usable = sorted((s for s in samples if any(s.mask)), key=input_length, reverse=True)
    if not usable:
        return []
    by_tokens, by_count = sum(map(input_length, usable)) / token_budget, len(usable)
    steps = math.ceil(min(by_tokens, by_count) / ranks)
    while True:
        bins = _filled(usable, steps * ranks)
        if all(load <= token_budget or len(members) == 1 for load, members in bins):
            break
        steps += 1
    bins.sort(key=lambda entry: entry[0], reverse=True)  # ranks of one step wait for each other
    batches = [members for _, members in bins]
    return [batches[first : first + ranks] for first in range(0, len(batches), ranks)]


def _filled(samples: Sequence[TurnSample], count: int) -> list[tuple[int, list[TurnSample]]]:
    """The longest sample first, each into the bin that holds least so far."""
    bins: list[tuple[int, int, list[TurnSample]]] = [(0, number, []) for number in range(count)]
    for sample in samples:
        load, number, members = bins[0]
        heapq.heapreplace(bins, (load + input_length(sample), number, [*members, sample]))
    return [(load, members) for load, _, members in sorted(bins, key=lambda entry: entry[1])]
