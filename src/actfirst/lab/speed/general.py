"""`actfirst bench general`: a model's own transformers forward pass against the hand-written one, on the same weights.

The two take turns; each turn generates the same tokens from the same prompts, or makes the same update. Processor time
of this process is counted, which other programs on the machine disturb less than the clock.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from actfirst.config.engine_sections import EngineSection
from actfirst.config.sections import LearnerSection
from actfirst.engines.base import Sampling
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.lab.spread import Spread, Told, ratios
from actfirst.learning.update import Learner
from actfirst.models.shapes import read_shape
from actfirst.records import TurnSample


@dataclass(frozen=True, slots=True)
class Passes:
    """Processor seconds of each turn. `slower` is the general pass by the hand-written one, turn by turn."""

    what: str
    tokens: int
    hand_written: tuple[float, ...]
    general: tuple[float, ...]

    @property
    def slower(self) -> Spread:
        return ratios(self.general, self.hand_written)


def measure(folder: Path, rounds: int, threads: int, told: Told) -> list[Passes]:
    """Generating and updating with 32 prompts of 96 to 192 tokens, and 32 tokens after each."""
    draw, size = random.Random(0), read_shape(folder).vocab_size
    prompts = [[draw.randrange(size) for _ in range(draw.randint(96, 192))] for _ in range(32)]
    samples = [
        TurnSample(str(i), str(i), str(i), 1, tuple(p), tuple(p[:32]), (1,) * 32, (-1.0,) * 32, (0.1,) * 32, 0)
        for i, p in enumerate(prompts)
    ]
    settings = EngineSection(dtype="float32", threads=threads, prefix_caching=False)
    learning = LearnerSection(precision="float32", threads=threads)
    engines = [EmbeddedEngine.from_pretrained(folder, settings, general=g) for g in (False, True)]
    learners = [Learner(folder, learning, general=g) for g in (False, True)]

    def generate(which: int) -> None:
        async def together() -> None:
            sampling = Sampling(32, seed=0, ignore_eos=True)
            await asyncio.gather(*(engines[which].generate(prompt, sampling) for prompt in prompts))

        asyncio.run(together())

    def update(which: int) -> None:
        learners[which].update(samples)

    given, new = sum(map(len, prompts)), 32 * len(prompts)
    found = [
        _alternate("generate", given + new, generate, rounds, told),
        _alternate("update", given + new, update, rounds, told),
    ]
    for engine in engines:
        asyncio.run(engine.close())
    return found


def _alternate(what: str, tokens: int, work: Callable[[int], None], rounds: int, told: Told) -> Passes:
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):  # the first warms up
        for which in (0, 1):
            before = time.process_time()
            work(which)
            seconds[which].append(time.process_time() - before)
        told(turn + 1, rounds + 1, what)
    return Passes(what, tokens, tuple(seconds[0][1:]), tuple(seconds[1][1:]))


def to_json(passes: list[Passes]) -> dict[str, object]:
    return {"passes": [{**asdict(found), "slower": asdict(found.slower)} for found in passes]}
