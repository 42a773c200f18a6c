"""What storing for the viewer costs a run: blocks of updates with and without it, alternating in one run.

Processor time is that of the thread that makes and writes the lines, and what listing the teacher's alternatives adds
to its scoring, against that of the whole process while it trains. Blocks are compared, too, by their medians, in
processor and in wall time: both kinds meet the same machine. Their spread says how far that can be trusted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actfirst.config.config import Config
from actfirst.engines.base import Engine, Listing
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

_TURNS = 5


class StoringCost(Record):
    """`share` is of the processor time of training (%), as if every update were stored; it includes the lines of
    episodes, which a run also writes without a viewer. `block_processor_spread` is the standard error of the mean of
    `blocks`, in percent of it."""

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
    block_processor_with: float
    block_processor_without: float
    block_processor_spread: float
    blocks: int
    alternatives_seconds_per_response: float


@dataclass(frozen=True)
class Alternating(Storing):
    """Stores the responses of every second block of updates."""

    block: int = 4
    seen: list[TurnSample] = field(default_factory=list)

    def trained(self, samples: Sequence[TurnSample], update: int) -> None:
        self.seen[:] = samples
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
            processor.append(time.process_time())
            told(line.update, config.run.updates)

    processor: list[float] = []

    async with open_training(config, folder, resume=False, watcher=Telling()) as opened:
        training = await opened.training()
        whole = training.storing
        alternating = Alternating(whole.folder, whole.settings, whole.read_texts, whole.teacher, block)
        training.storing = alternating
        before = time.process_time()
        await loop.train(training)
        used = time.process_time() - before
        seconds = training.folder.later_seconds
        listing = await _listing(opened.teacher, alternating.seen, config.run.keep_alternatives)
    return _cost(folder, block, used, seconds, processor, listing)


async def _listing(teacher: Engine, samples: Sequence[TurnSample], alternatives: int) -> float:
    """Processor seconds that listing alternatives adds to the scoring of one response: the median of many turns."""
    if not alternatives or not isinstance(teacher, Listing):
        return 0.0
    added = []
    for sample in [one for one in samples if one.token_ids] * _TURNS:
        spent = []
        for wanted in (0, alternatives):
            before = time.process_time()
            await teacher.scores(sample.prompt_ids, sample.token_ids, wanted)
            spent.append(time.process_time() - before)
        added.append(spent[1] - spent[0])
    return statistics.median(added) if added else 0.0


def _cost(
    folder: Path, block: int, used: float, seconds: float, processor: Sequence[float], listing: float
) -> StoringCost:
    run = open_run(folder)
    responses, episodes = sum(1 for _ in run.responses()), sum(1 for _ in run.episodes())
    # One thread writes both, so its time is divided by what it wrote.
    written = {name: size(folder / name) for name in (RESPONSES, EPISODES)}
    of_responses = seconds * written[RESPONSES] / max(1, sum(written.values()))
    stored = sum(is_stored(line.update, block) for line in run.updates)
    everything = (seconds - of_responses) + of_responses * len(run.updates) / max(1, stored)
    everything += max(0.0, listing) * run.updates[-1].ledger.generated if run.updates else 0.0
    with_it, without = _blocks([line.training_seconds for line in run.updates], block)
    busy_with, busy_without = _blocks(processor, block)
    busy = [*busy_with, *busy_without]
    spread = statistics.stdev(busy) / len(busy) ** 0.5 / statistics.fmean(busy) if len(busy) > 1 else 0.0
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
        block_processor_with=statistics.median(busy_with) if busy_with else 0.0,
        block_processor_without=statistics.median(busy_without) if busy_without else 0.0,
        block_processor_spread=100.0 * spread,
        blocks=len(busy),
        alternatives_seconds_per_response=listing,
    )


def _blocks(ends: Sequence[float], block: int) -> tuple[list[float], list[float]]:
    """What each block after the first took, from the times at which updates ended: stored ones, and the others."""
    found: tuple[list[float], list[float]] = ([], [])
    for first in range(block, len(ends) - block + 1, block):
        found[not is_stored(first + 1, block)].append(ends[first + block - 1] - ends[first - 1])
    return found
