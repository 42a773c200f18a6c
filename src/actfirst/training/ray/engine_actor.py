"""One engine in a process of its own. Which engine it is, the recipe says; nothing here knows Ray but its results.

Answers carry the engine's counters, so that nobody has to ask for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actfirst.config.engine_sections import EngineSection, TeacherSection
from actfirst.engines.base import Engine, Receiving
from actfirst.engines.open import open_engine
from actfirst.engines.weight_group import Entry, WeightGroup
from actfirst.errors import EngineError
from actfirst.records import EngineStats
from actfirst.training.ray.desk import Desk, Generate, Request
from actfirst.training.ray.transfer import unpacked

if TYPE_CHECKING:
    from torch import Tensor


class EngineActor(Desk):
    """What `Fleet` calls.

    Ray does not promise to start calls in the order in which they were made. So swaps of weights are numbered from 1,
    and a request says which swap was announced before it: it waits for that one.
    """

    def __init__(self, settings: EngineSection | TeacherSection, model: Path, adapter_rank: int = 0) -> None:
        super().__init__()
        self._settings = settings
        self._model = model
        self._adapter_rank = adapter_rank
        self._engine: Engine  # from `start` on
        self._fetched: dict[
            int, dict[str, Tensor] | None
        ] = {}  # None: where the engine's own workers have them
        self._group: WeightGroup | None = None
        self._swaps = 0
        self._swapped = asyncio.Condition()

    async def start(self) -> None:
        """Load the model. Called once, before anything else."""
        self._engine = await asyncio.to_thread(open_engine, self._settings, self._model, self._adapter_rank)

    async def answer(self, request: Request) -> Any:
        await self._after(request.swap)
        if isinstance(request, Generate):
            return await self._engine.generate(request.prompt_ids, request.sampling, request.priority)
        return await self._engine.score(request.prompt_ids, request.token_ids)

    def stats(self) -> EngineStats:
        return self._engine.stats()

    async def fetch(self, refs: Sequence[Any], version: int) -> None:
        """Bring weights of the object store to this machine, while requests go on with the old ones."""
        self._keep(version, unpacked(await asyncio.gather(*refs)))

    async def join(self, address: str, rank: int, size: int, device: str) -> None:
        """Become a receiver of broadcasts, or have the engine's own workers become receivers, from this rank on."""
        if isinstance(self._engine, Receiving):
            await self._engine.join(address, rank, size)
            return
        self._group = await asyncio.to_thread(WeightGroup, address, rank, size, device)

    async def receive(self, entries: Sequence[Entry], dtype: str, version: int) -> None:
        """Take weights from a broadcast, while requests go on with the old ones."""
        if isinstance(self._engine, Receiving):
            await self._engine.receive(entries, dtype, version)
            self._keep(version, None)
            return
        group = self._group
        if group is None:
            raise EngineError("a broadcast began before the engine had joined its group")
        try:
            self._keep(version, await asyncio.to_thread(group.receive, entries, dtype))
        except Exception as error:
            group.fail(f"{type(error).__name__}: {error}")  # else the sender would wait for this one
            raise

    async def install(self, version: int, swap: int) -> EngineStats:
        """Swap to the fetched weights; `engine.swap` says what becomes of running requests. Later ones wait."""
        await self._after(swap - 1)
        try:
            weights = self._fetched.pop(version)
            if weights is not None:
                await self._engine.load_weights(weights, version)
            elif isinstance(self._engine, Receiving):
                await self._engine.load_received(version)
        finally:
            async with self._swapped:
                self._swaps = swap
                self._swapped.notify_all()
        return self._engine.stats()

    async def _after(self, swap: int) -> None:
        async with self._swapped:
            await self._swapped.wait_for(lambda: self._swaps >= swap)

    def _keep(self, version: int, weights: dict[str, Tensor] | None) -> None:
        """With the ones before: the swap to those may begin only now."""
        before = {other: tensors for other, tensors in self._fetched.items() if other != version}
        self._fetched = {**dict(list(before.items())[-1:]), version: weights}
