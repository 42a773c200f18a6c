"""What the proof that new weights arrived costs: blocks of updates with and without it, alternating in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from actfirst.config.config import Config
from actfirst.lab.storing import is_stored
from actfirst.records import TurnSample
from actfirst.runs.lines import UpdateLine
from actfirst.runs.record import Record
from actfirst.training import loop
from actfirst.training.arrival import Arrival
from actfirst.training.open import open_training
from actfirst.training.watch import Watcher


class WeightCheckCost(Record):
    """Medians over blocks of updates: processor time, and time that passed. `ratio` is of processor time."""

    updates: int
    block: int
    checked: int
    cpu_with: float
    cpu_without: float
    seconds_with: float
    seconds_without: float
    ratio: float


class _Alternating(Arrival):
    """Looks at every second block of updates."""

    block = 1
    checked = 0

    async def begin(self, samples: Sequence[TurnSample], version: int) -> None:
        if is_stored(version, self.block):
            self.checked += 1
            await super().begin(samples, version)


async def measure_weight_check(
    config: Config, folder: Path, block: int, told: Callable[[int, int], None]
) -> WeightCheckCost:
    """Train as the recipe says, with the check in half of it."""
    ends: list[tuple[float, float]] = []

    class Telling(Watcher):
        def update(self, line: UpdateLine) -> None:
            ends.append((time.process_time(), time.monotonic()))
            told(line.update, config.run.updates)

    async with open_training(config, folder, resume=False, watcher=Telling()) as opened:
        training = await opened.training()
        assert opened.learner is not None
        arrival = _Alternating(config, opened.learner, opened.scores())
        arrival.block = block
        training.arrival = arrival
        await loop.train(training)
    return _cost(ends, block, arrival.checked)


def _cost(ends: Sequence[tuple[float, float]], block: int, checked: int) -> WeightCheckCost:
    """A check is begun after its update and paid for until the next one is over: blocks are shifted by one."""
    spent: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for first in range(block + 1, len(ends) - block + 1, block):
        before, after = ends[first - 1], ends[first + block - 1]
        spent[is_stored(first, block)].append((after[0] - before[0], after[1] - before[1]))
    with_it, without = (
        tuple(statistics.median(of) for of in zip(*spent[kind], strict=True)) if spent[kind] else (0.0, 0.0)
        for kind in (True, False)
    )
    return WeightCheckCost(
        updates=len(ends),
        block=block,
        checked=checked,
        cpu_with=with_it[0],
        cpu_without=without[0],
        seconds_with=with_it[1],
        seconds_without=without[1],
        ratio=with_it[0] / without[0] if without[0] else 1.0,
    )
