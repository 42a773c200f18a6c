"""The local runtime's learner: in this process, in a thread of its own, so that rollouts go on while it updates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from actfirst.config.sections import LearnerSection
from actfirst.learning.checkpoint import Checkpoint, prune, save
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

    async def save(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], keep: int, also: Set[int]
    ) -> None:
        def write() -> None:
            save(self._checkpoints, self._learner, samples, trainer_state)
            prune(self._checkpoints, keep, also)

        await self._run(write)

    async def close(self) -> None:
        self._thread.shutdown()

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
