"""The local runtime's learner: in this process, in a thread of its own, so that rollouts go on while it updates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from actfirst.config.sections import LearnerSection
from actfirst.learning.checkpoint import Checkpoint, Taken, prune, take, write
from actfirst.learning.rng import restore_rng
from actfirst.learning.update import Learner
from actfirst.models.device import compute_device
from actfirst.records import TurnSample, UpdateStats

Result = TypeVar("Result")


class LocalLearner:
    def __init__(self, student: Path, settings: LearnerSection, checkpoints: Path) -> None:
        device = compute_device(settings.device, "learner.device")
        self._learner = Learner(student, settings, device)
        self._checkpoints = checkpoints
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._taken: Taken | None = None

    @property
    def version(self) -> int:
        return self._learner.version

    async def open(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None:
            self._learner.restore(checkpoint.learner)
            restore_rng(checkpoint.rng)

    async def update(self, samples: Sequence[TurnSample]) -> UpdateStats:
        return await self._run(lambda: self._learner.update(samples))

    async def fit(self, samples: Sequence[TurnSample], rate: float) -> UpdateStats:
        return await self._run(lambda: self._learner.fit(samples, rate))

    async def measure(self, samples: Sequence[TurnSample]) -> float:
        return await self._run(lambda: self._learner.measure(samples))

    def weights(self, *, averaged: bool = False) -> Mapping[str, torch.Tensor]:
        return self._learner.weights(averaged=averaged)

    async def take(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], copy: bool
    ) -> None:
        self._taken = await self._run(lambda: take(self._learner, samples, trainer_state, copy=copy))

    async def write(self, keep: int, also: Set[int], export: bool) -> None:
        taken, self._taken = self._taken, None
        assert taken is not None, "`take` comes first"

        def work() -> None:
            write(self._checkpoints, taken, export=export)
            prune(self._checkpoints, keep, also)

        await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def close(self) -> None:
        self._thread.shutdown()
        self._writer.shutdown()

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
