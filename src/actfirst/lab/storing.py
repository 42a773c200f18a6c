"""What storing for the viewer costs a run: blocks of updates with and without it, alternating in one run.

Processor time is that of the thread that makes and writes the lines, against that of the whole process while it trains.
Wall time compares medians of blocks; both kinds of blocks meet the same machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.config.config import Config
from actfirst.records import TurnSample
from actfirst.runs.files import size
from actfirst.runs.lines import UpdateLine
from actfirst.runs.record import Record
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import EPISODES, RESPONSES
from actfirst.training import loop
from actfirst.training.open import open_training
from actfirst.training.storing import Storing
from actfirst.training.watch import Watcher


class StoringCost(Record):
    """`share` is of the processor time of training (%), as if every update were stored; it includes the lines of
    episodes, which a run also writes without a viewer."""

    updates: int
    stored_responses: int
    bytes_per_response: float
    episodes: int
    bytes_per_episode: float
    seconds_per_response: float
    seconds_per_episode: float
    share: float
    training_processor_seconds: float
    training_seconds: float
    block_seconds_with: float
    block_seconds_without: float


@dataclass(frozen=True)
class Alternating(Storing):
    """Stores the responses of every second block of updates."""

    block: int = 4

    def trained(self, samples: Sequence[TurnSample], update: int) -> None:
        if is_stored(update, self.block):
            super().trained(samples, update)


def is_stored(update: int, block: int) -> bool:
    """Whether an update is in a block that is stored; the first block, in which everything warms up, is not."""
    return (update - 1) // block % 2 == 1


async def measure_storing(
    config: Config, folder: Path, block: int, told: Callable[[int, int], None]
) -> StoringCost:
    """Train as the recipe says, storing half of it."""

    class Telling(Watcher):
        def update(self, line: UpdateLine) -> None:
            told(line.update, config.run.updates)

    async with open_training(config, folder, resume=False, watcher=Telling()) as opened:
        training = await opened.training()
        whole = training.storing
        training.storing = Alternating(whole.folder, whole.settings, whole.read_texts, whole.teacher, block)
        before = time.process_time()
        await loop.train(training)
        used = time.process_time() - before
        seconds = training.folder.later_seconds
    return _cost(folder, block, used, seconds)


def _cost(folder: Path, block: int, used: float, seconds: float) -> StoringCost:
    run = open_run(folder)
    responses, episodes = sum(1 for _ in run.responses()), sum(1 for _ in run.episodes())
    # One thread writes both, so its time is divided by what it wrote.
    written = {name: size(folder / name) for name in (RESPONSES, EPISODES)}
    of_responses = seconds * written[RESPONSES] / max(1, sum(written.values()))
    stored = sum(is_stored(line.update, block) for line in run.updates)
    everything = (seconds - of_responses) + of_responses * len(run.updates) / max(1, stored)
    ends = [line.training_seconds for line in run.updates]
    blocks = [
        (is_stored(first + 1, block), ends[first + block - 1] - ends[first - 1])
        for first in range(block, len(ends) - block + 1, block)
    ]
    with_it, without = ([spent for kept, spent in blocks if kept is kind] for kind in (True, False))
    return StoringCost(
        updates=len(run.updates),
        stored_responses=responses,
        bytes_per_response=round(written[RESPONSES] / max(1, responses)),
        episodes=episodes,
        bytes_per_episode=round(written[EPISODES] / max(1, episodes)),
        seconds_per_response=of_responses / max(1, responses),
        seconds_per_episode=(seconds - of_responses) / max(1, episodes),
        share=100.0 * everything / max(used, 1e-9),
        training_processor_seconds=used,
        training_seconds=run.summary.training_seconds,
        block_seconds_with=statistics.median(with_it) if with_it else 0.0,
        block_seconds_without=statistics.median(without) if without else 0.0,
    )
