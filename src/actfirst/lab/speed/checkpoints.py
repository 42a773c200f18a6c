"""`actfirst bench checkpoint`: how long the loop waits for a checkpoint, written at once and beside the loop.

Random Qwen3 models of growing size, the learner of a local run and the same class that training uses. Both ways take
turns; an update follows each checkpoint, so that one that is written beside the loop has something to be beside.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.runtime_sections import CheckpointSection
from actfirst.lab.speed.models import Size
from actfirst.lab.speed.sync import make_model, make_sample
from actfirst.lab.spread import Spread, Told
from actfirst.training.checkpoints import CHECKPOINT, Checkpoints
from actfirst.training.clock import StageClock
from actfirst.training.local import LocalLearner

SIZES = (Size(8, 8), Size(16, 10), Size(24, 16))


@dataclass
class Waiting:
    """One way of one model: seconds that the loop waited, and until the checkpoint was whole, for each checkpoint."""

    parameters: int
    background: bool
    megabytes: float = 0.0
    blocked: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)


def measure(config: Config, sizes: Sequence[Size], repeats: int, scratch: Path, told: Told) -> list[Waiting]:
    return asyncio.run(_measure(config, sizes, repeats, scratch.absolute(), told))


async def _measure(
    config: Config, sizes: Sequence[Size], repeats: int, scratch: Path, told: Told
) -> list[Waiting]:
    found: list[Waiting] = []
    for number, size in enumerate(sizes, start=1):
        folder = scratch / f"{size.heads}x{size.layers}"
        parameters = make_model(folder, size)
        ways = [Waiting(parameters, background) for background in (False, True)]
        learner = LocalLearner(folder, config.learner, folder / "checkpoints")
        try:
            await learner.update([make_sample()])  # the optimiser has tensors from here on
            for repeat in range(repeats + 1):
                for way in ways:
                    await _once(learner, way, counted=repeat > 0)
        finally:
            await learner.close()
        for way in ways:
            newest = max((folder / "checkpoints").glob("step-*"))
            way.megabytes = sum(path.stat().st_size for path in newest.rglob("*") if path.is_file()) / 1e6
        shutil.rmtree(folder)
        found += ways
        told(number, len(sizes), f"{parameters / 1e6:.1f} M parameters")
    return found


async def _once(learner: LocalLearner, way: Waiting, *, counted: bool) -> None:
    """A checkpoint and the update after it, then what is left to wait for: that of the first round is not counted."""
    clock, begun = StageClock(), time.monotonic()
    ended: list[float] = []
    checkpoints = Checkpoints(
        learner,
        CheckpointSection(keep=1, background=way.background),
        clock,
        lambda _: ended.append(time.monotonic()),
        stored=0,
    )
    await checkpoints.save((), dict)
    blocked = clock.seconds[CHECKPOINT]
    await learner.update([make_sample()])
    await checkpoints.settle()
    if counted:
        way.blocked.append(blocked)
        way.written.append(ended[0] - begun)


def rows(found: Sequence[Waiting]) -> list[dict[str, str]]:
    return [
        {
            "parameters (M)": f"{way.parameters / 1e6:.1f}",
            "checkpoint (MB)": f"{way.megabytes:.0f}",
            "written": "beside the loop" if way.background else "at once",
            "the loop waits (s)": Spread.of(way.blocked).text(3),
            "until it is whole (s)": Spread.of(way.written).text(3),
        }
        for way in found
    ]


def to_json(found: Sequence[Waiting]) -> dict[str, object]:
    return {"checkpoints": [asdict(way) for way in found]}
