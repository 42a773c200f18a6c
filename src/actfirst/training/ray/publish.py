"""How published weights reach engines: they know how to deliver themselves to actors.

To deliver is to bring the tensors to each engine's process; the engine goes on with its old weights meanwhile. The
answer says for each actor which version arrived; one to which none did is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import torch
from torch import Tensor

from actfirst.training.ray.calls import TRANSFER_SECONDS, Lost, ObjectGone, finished
from actfirst.training.ray.transfer import parcels, unpacked


@dataclass(frozen=True, slots=True)
class Stored:
    """Weights in the object store, and their version."""

    version: int
    references: list[Any]


class StoredWeights(Mapping[str, Tensor]):
    """Weights outside of this process that go through the object store, put there when they are first delivered.

    As a mapping they are fetched, which is rarely wanted.
    """

    def __init__(self, put: Callable[[], Awaitable[Stored]]) -> None:
        self._put = put
        self._stored: Stored | None = None
        self._putting = asyncio.Lock()

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], version: int) -> StoredWeights:
        """Weights of this process, in the precision that they have."""

        async def put() -> Stored:
            first = next(iter(weights.values()))
            dtype = "bfloat16" if first.dtype is torch.bfloat16 else "float32"
            return Stored(version, [ray.put(parcel) for parcel in parcels(weights.items(), dtype)])

        return cls(put)

    async def deliver(self, actors: Sequence[Any], version: int) -> list[int | None]:
        """To all engines that are up, by the fastest way there is."""
        return await self.deliver_late(actors)

    async def deliver_late(self, actors: Sequence[Any]) -> list[int | None]:
        """To engines that were started later. It may be that only newer weights are left."""
        return list(await asyncio.gather(*map(self._deliver, actors)))

    async def _deliver(self, actor: Any) -> int | None:
        """The version that arrived. What went away with its owner is put once more, if there is still somebody to."""
        for _ in range(2):
            stored = await self._in_store()
            try:
                await finished(actor.fetch.remote(stored.references, stored.version), TRANSFER_SECONDS)
            except ObjectGone:
                async with self._putting:
                    self._stored = None if self._stored is stored else self._stored
            except Lost:
                return None
            else:
                return stored.version
        return None

    async def _in_store(self) -> Stored:
        async with self._putting:
            if self._stored is None:
                self._stored = await self._put()
            return self._stored

    async def fetched(self) -> dict[str, Tensor]:
        """The weights here, also if they were never put into the store."""
        return unpacked(await asyncio.gather(*(await self._in_store()).references))

    def tensors(self) -> dict[str, Tensor]:
        if self._stored is None:
            raise RuntimeError("the weights were not delivered yet")
        return unpacked(ray.get(self._stored.references))

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors())

    def __len__(self) -> int:
        return len(self.tensors())


async def arrived(call: Any) -> bool:
    """Whether a call came back; what it raises itself is raised."""
    try:
        await finished(call, TRANSFER_SECONDS)
    except Lost:
        return False
    return True
