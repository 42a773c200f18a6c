"""Checkpoints beside the loop: the loop waits for a copy of the training state, not for the disk.

One is written at a time: whoever asks for the next one while the last is still being written waits for it. A checkpoint
counts as stored, and is logged, when it is whole and in its place. A write that failed is raised by the next call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from actfirst.config.runtime_sections import CheckpointSection
from actfirst.records import TurnSample
from actfirst.training.clock import StageClock

CHECKPOINT = "checkpoint"
"""The stage of the loop's clock: how long the loop waits for checkpoints."""


class Taker(Protocol):
    """The learner, as far as it is stored."""

    @property
    def version(self) -> int: ...

    async def take(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], copy: bool
    ) -> None:
        """Take what the next checkpoint will hold, as a copy if updates go on before it is written."""
        ...

    async def write(self, keep: int, also: Set[int], export: bool) -> None:
        """Write what was taken, with `export` also in bfloat16; of the older checkpoints the newest `keep` stay, and
        those of the updates in `also`."""
        ...


@dataclass
class Checkpoints:
    """`stored` is the version of the newest one, and `longest` the most seconds that one took to be written."""

    learner: Taker
    settings: CheckpointSection
    clock: StageClock
    log: Callable[[str], None]
    stored: int
    longest: float = 0.0
    _writing: asyncio.Task[None] | None = field(default=None, init=False)

    async def save(
        self,
        samples: Sequence[TurnSample],
        state: Callable[[], Mapping[str, object]],
        also: Set[int] = frozenset(),
    ) -> None:
        """Store the learner's present version; `state` is asked when the one before is written."""
        await self.settle()
        with self.clock.stage(CHECKPOINT):
            await self.learner.take(samples, state(), self.settings.background)
            self._writing = asyncio.create_task(self._write(self.learner.version, also))
        if not self.settings.background:
            await self.settle()

    def check(self) -> None:
        """Raise what a write that is over failed with."""
        if self._writing is not None and self._writing.done():
            task, self._writing = self._writing, None
            task.result()

    async def settle(self) -> None:
        """Wait for the checkpoint that is being written."""
        if self._writing is not None:
            with self.clock.stage(CHECKPOINT):
                await asyncio.wait([self._writing])
            self.check()

    async def close(self) -> None:
        """Wait for it also where something else has failed, which is then what is reported."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            with suppress(Exception, asyncio.CancelledError):
                self.check()

    async def _write(self, version: int, also: Set[int]) -> None:
        begun = time.monotonic()
        export = self.settings.export and version in self.settings.keep_at
        await self.learner.write(self.settings.keep, also, export)
        self.longest = max(self.longest, time.monotonic() - begun)
        self.stored = version
        self.log(f"checkpoint of update {version}")
