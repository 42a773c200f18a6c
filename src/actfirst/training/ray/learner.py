"""The learner's ranks as actors, behind the interface that the loop knows.

All ranks get the same calls. When one of them is lost, none of the others can go on: all are ended, and `LearnerLost`
takes the run back to its last checkpoint. One rank is a plain `Learner`; several are a `ShardedLearner`. How many there
are is seen when they start: after a loss there may be places for fewer (`runtime.least_learners`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import ray

from actfirst.config.config import Config
from actfirst.config.sections import LearnerSection
from actfirst.engines.weight_group import Entry, WeightGroup, entries, free_address
from actfirst.errors import ActfirstError, EngineError, LearnerLost
from actfirst.learning.checkpoint import Checkpoint, Taken, load, prune, take, write
from actfirst.learning.rng import restore_rng
from actfirst.learning.sharded import ShardedLearner
from actfirst.learning.sharded_checkpoint import TakenShard, restore_sharded, take_sharded, write_sharded
from actfirst.learning.update import Learner
from actfirst.records import TurnSample, UpdateStats
from actfirst.rollout.together import cancelled, together
from actfirst.training.ray.calls import TRANSFER_SECONDS, Lost, end, finished
from actfirst.training.ray.cluster import BESIDE, Demands, actors, places
from actfirst.training.ray.publish import Stored, StoredWeights, arrived
from actfirst.training.ray.transfer import parcels

_LOG = logging.getLogger(__name__)
_PATIENCE = 30.0
"""Seconds in which ranks that refuse the same thing all say so, and in which Ray notices that one is dead."""

_LOOK_SECONDS = 2.0
LOOKS = 60
"""How often a learner that may have fewer ranks looks for places for all."""


class RankActor:
    """One rank. Its calls run one after the other, but for `write`, which goes on beside them."""

    def __init__(self, rank: int, ranks: int, copies: int) -> None:
        self._rank = rank
        self._ranks = ranks
        self._copies = copies
        self._learner: Learner  # from `open` on
        self._group: WeightGroup | None = None
        self._taken: Taken | TakenShard

    def address(self) -> str:
        """Where the others find this rank."""
        return free_address(ray.util.get_node_ip_address())

    def open(
        self, address: str, student: Path, settings: LearnerSection, device: str, checkpoint: Path | None
    ) -> int:
        """Load the model, or continue from a checkpoint; returns the version."""
        if self._ranks > 1:
            _join_ranks(address, self._rank, self._ranks)
            learner: Learner = ShardedLearner(student, settings, device, self._copies)
        else:
            learner = Learner(student, settings, device)
        self._learner = learner
        if checkpoint is not None:
            stored = load(checkpoint)
            if isinstance(learner, ShardedLearner):
                restore_sharded(learner, stored)
            else:
                learner.restore(stored.learner)
            restore_rng(stored.rng)
        return learner.version

    def update(self, samples: Sequence[TurnSample]) -> UpdateStats:
        return self._learner.update(samples)

    def fit(self, samples: Sequence[TurnSample], rate: float) -> UpdateStats:
        return self._learner.fit(samples, rate)

    def measure(self, samples: Sequence[TurnSample]) -> float:
        return self._learner.measure(samples)

    def publish(self, dtype: str, averaged: bool) -> Stored:
        """Put the weights into the object store; the first rank says where they are."""
        made = parcels(self._learner.for_engines(averaged=averaged), dtype)
        references = [ray.put(parcel) for parcel in made if self._rank == 0]
        return Stored(self._learner.version, references)

    def join(self, address: str, size: int, device: str) -> None:
        """Become the sender of broadcasts."""
        self._group = WeightGroup(address, 0, size, device)

    def entries(self) -> tuple[Entry, ...]:
        return entries(self._learner.for_engines())

    def broadcast(self, dtype: str, averaged: bool) -> None:
        """Send the weights to all engines of the group; other ranks than the first only give their parts."""
        weights = self._learner.for_engines(averaged=averaged)
        try:
            if self._group is not None:
                self._group.send(weights, dtype)
        finally:
            for _ in weights:
                pass  # also after a failure: the other ranks wait for this one's parts

    def take(self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], copy: bool) -> None:
        learner = self._learner
        if isinstance(learner, ShardedLearner):
            self._taken = take_sharded(learner, samples, trainer_state, copy=copy)
        else:
            self._taken = take(learner, samples, trainer_state, copy=copy)

    @ray.method(concurrency_group=BESIDE)  # type: ignore[untyped-decorator]
    def write(self, folder: Path, keep: int, also: Set[int], export: bool) -> None:
        taken = self._taken
        del self._taken
        if isinstance(taken, TakenShard):
            write_sharded(folder, taken, export=export)
        else:
            write(folder, taken, export=export)
        if self._rank == 0:
            prune(folder, keep, also)


def _join_ranks(address: str, rank: int, ranks: int) -> None:
    import torch
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, init_method=f"tcp://{address}", rank=rank, world_size=ranks)


def start_learner(student: Path, config: Config, checkpoints: Path) -> RayLearner:
    wanted, threads = Demands.of(config).learner, config.learner.threads

    def start(rank: int, ranks: int, place: int) -> Any:
        return actors(RankActor, wanted, threads, serial=True, bundle=place)(
            rank, ranks, config.runtime.learner_copies
        )

    return RayLearner(student, config, checkpoints, start, partial(places, wanted))


class RayLearner:
    """What the loop calls a learner. `version` is that of the last update that came back."""

    def __init__(
        self,
        student: Path,
        config: Config,
        checkpoints: Path,
        start: Callable[[int, int, int], Any],
        places: Callable[[], list[int]],
    ) -> None:
        """`start` makes the actor of a rank, of so many, in one of the `places` that are there. Other processes stand
        in other folders, so paths are whole."""
        settings = self._runtime = config.runtime
        self._start, self._places = start, places
        self._student, self._checkpoints = student.absolute(), checkpoints.absolute()
        self._settings = config.learner
        self._dtype = config.engine.dtype
        self._learner_device = "cuda" if settings.learner_gpus else "cpu"
        both = settings.learner_gpus and settings.engine_gpus
        self._device = "cuda" if both else "cpu"
        automatic = "collective" if both else "store"
        self._sync = automatic if settings.weight_sync == "auto" else settings.weight_sync
        self._ranks: list[Any] = []  # from `open` on
        # vLLM's workers take whole weights themselves; adapters alone, and other engines, are taken by one process.
        workers = config.engine.kind == "vllm" and not config.adapters_alone
        self._receivers = config.engine.vllm.tensor_parallel if workers else 1
        self._members: list[Any] = []
        self._entries: tuple[Entry, ...] = ()
        self.broadcasts = 0
        self.fallbacks = 0
        self.first_fallback = ""
        self.version = 0

    @property
    def actors(self) -> list[Any]:
        return list(self._ranks)

    async def open(self, checkpoint: Checkpoint | None) -> None:
        """Start all ranks from the student, or from a checkpoint."""
        there = await self._found_places()
        self._ranks = [self._start(rank, len(there), place) for rank, place in enumerate(there)]
        (address,) = await self._all([self._ranks[0].address.remote()])
        path = checkpoint.path.absolute() if checkpoint is not None else None
        how = (address, self._student, self._settings, self._learner_device, path)
        versions = await self._all([rank.open.remote(*how) for rank in self._ranks])
        self.version = int(versions[0])

    async def update(self, samples: Sequence[TurnSample]) -> UpdateStats:
        stored = ray.put(list(samples))
        stats: UpdateStats = (await self._all([rank.update.remote(stored) for rank in self._ranks]))[0]
        self.version += 1
        return stats

    async def fit(self, samples: Sequence[TurnSample], rate: float) -> UpdateStats:
        stored = ray.put(list(samples))
        stats: UpdateStats = (await self._all([rank.fit.remote(stored, rate) for rank in self._ranks]))[0]
        self.version += 1
        return stats

    async def measure(self, samples: Sequence[TurnSample]) -> float:
        stored = ray.put(list(samples))
        return float((await self._all([rank.measure.remote(stored) for rank in self._ranks]))[0])

    def weights(self, *, averaged: bool = False) -> StoredWeights:
        """Where the weights are; they are sent when an engine takes them. Good until the next update."""
        put = partial(self._publish, averaged)
        if self._sync == "store":
            return StoredWeights(put)
        return _BroadcastWeights(put, partial(self._broadcast, averaged))

    async def take(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], copy: bool
    ) -> None:
        stored = ray.put(list(samples))
        await self._all([rank.take.remote(stored, trainer_state, copy) for rank in self._ranks])

    async def write(self, keep: int, also: Set[int], export: bool) -> None:
        await self._all([rank.write.remote(self._checkpoints, keep, also, export) for rank in self._ranks])

    async def close(self) -> None:
        for rank in self._ranks:
            end(rank)

    async def _found_places(self) -> list[int]:
        """Places for all ranks; after a while for as many as there are, if they are enough."""
        settings, looked = self._runtime, 0
        while len(there := self._places()) < settings.learners:
            usable = there[: len(there) - len(there) % settings.learner_copies]
            if looked >= LOOKS and settings.least_learners and len(usable) >= settings.least_learners:
                _LOG.warning("the learner goes on with %d of %d ranks", len(usable), settings.learners)
                return usable
            looked += 1
            await asyncio.sleep(_LOOK_SECONDS)
        return there

    async def _publish(self, averaged: bool) -> Stored:
        calls = [rank.publish.remote(self._dtype, averaged) for rank in self._ranks]
        stored: Stored = (await self._transfer(calls))[0]
        return stored

    async def _broadcast(self, averaged: bool, actors: Sequence[Any], version: int) -> bool:
        """Send the weights to engines; False if somebody was lost on the way, and then the group is lost too."""
        if not self._entries:
            self._entries = (await self._transfer([rank.entries.remote() for rank in self._ranks]))[0]
        try:
            if self._members != list(actors):
                await self._regroup(actors)
            sent = self._transfer([rank.broadcast.remote(self._dtype, averaged) for rank in self._ranks])
            received = [actor.receive.remote(self._entries, self._dtype, version) for actor in actors]
            reason = "" if all(await together([sent, *map(arrived, received)])) else "a receiver was lost"
        except EngineError as error:  # a member found the group broken
            reason = str(error) or type(error).__name__
        if reason:
            self._members = []
            self._count_fallback(reason)
        else:
            self.broadcasts += 1
        return not reason

    def _count_fallback(self, reason: str) -> None:
        self.fallbacks += 1
        if self.fallbacks == 1:
            self.first_fallback = reason
            _LOG.warning("a broadcast of weights failed, they go through the object store: %s", reason)

    async def _regroup(self, actors: Sequence[Any]) -> None:
        size = len(actors) * self._receivers + 1
        (address,) = await self._transfer([self._ranks[0].address.remote()])
        sender = self._transfer([self._ranks[0].join.remote(address, size, self._device)])
        receivers = [
            arrived(actor.join.remote(address, rank, size, self._device))
            for rank, actor in zip(range(1, size, self._receivers), actors, strict=True)
        ]
        if not all(await together([sender, *receivers])):
            raise EngineError("an engine was lost while the group of the broadcast was made")
        self._members = list(actors)

    async def _transfer(self, calls: Sequence[Any]) -> list[Any]:
        """As `_all`; a rank that does not answer in time is lost."""
        return await self._all(calls, TRANSFER_SECONDS)

    async def _all(self, calls: Sequence[Any], seconds: float | None = None) -> list[Any]:
        """The answers of all ranks. One that fails alone leaves the others waiting for it, so they are ended."""
        patience = seconds or self._runtime.call_seconds
        tasks = [asyncio.ensure_future(finished(call, patience)) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        except (Lost, ActfirstError) as error:
            waiting = set[asyncio.Task[Any]]()
            if not isinstance(error, Lost):
                _, waiting = await asyncio.wait(tasks, timeout=_PATIENCE)
            # That a connection was closed is heard by the other ranks before Ray reports which of them is dead.
            lost = _lost(tasks) or (error if waiting and isinstance(error, EngineError) else None)
            if lost or waiting:
                await self.close()
            await cancelled(tasks)
            if lost is None:
                raise
            raise LearnerLost(f"a rank of the learner was lost after update {self.version}: {lost}") from error


def _lost(tasks: Sequence[asyncio.Task[Any]]) -> BaseException | None:
    """The loss by which one of the tasks ended, if one did."""
    ended = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    return next((error for error in ended if isinstance(error, Lost)), None)


class _BroadcastWeights(StoredWeights):
    """Weights that go from process to process. What a broadcast does not reach takes them from the store."""

    def __init__(
        self, put: Callable[[], Awaitable[Stored]], broadcast: Callable[[Sequence[Any], int], Awaitable[bool]]
    ) -> None:
        super().__init__(put)
        self._broadcast = broadcast

    async def deliver(self, actors: Sequence[Any], version: int) -> list[int | None]:
        if actors and await self._broadcast(actors, version):
            return [version] * len(actors)
        return await self.deliver_late(actors)
