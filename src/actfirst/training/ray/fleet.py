"""Several engine actors behind the contract of engines/base.py.

A request goes to the engine with the fewest of ours under way; prompts that begin alike go to the same one while it is
not much busier than others, because it has their keys and values. An engine that is lost is replaced, and its requests
are made again elsewhere: with a seed, the result is the same. One that does not answer in time counts as lost. New
weights travel while engines go on with the old ones; `load_weights` returns when all have arrived, and every request
made after that runs on them. Each engine swaps as `engine.swap` says, and admits by its own `engine.priority`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actfirst.config.engine_sections import EngineSection, TeacherSection
from actfirst.config.runtime_sections import RuntimeSection
from actfirst.engines.base import Priority, Sampling
from actfirst.errors import ActfirstError, EngineDied, EngineError, LearnerLost
from actfirst.records import Completion, EngineStats
from actfirst.rollout.together import cancelled
from actfirst.training.ray.calls import Lost, end, finished
from actfirst.training.ray.cluster import Demand, actors
from actfirst.training.ray.desk import Generate, Request, Score
from actfirst.training.ray.engine_actor import EngineActor
from actfirst.training.ray.line import Line
from actfirst.training.ray.publish import StoredWeights

if TYPE_CHECKING:
    import torch

# A request that loses so many engines is itself the reason.
_LOST_AT_MOST = 4
_STARTS_AT_MOST = 3

# The process is gone, its engine has ended by a failure, or it does not answer: either way another one takes over.
_GONE = (Lost, EngineDied, TimeoutError)
# The fast and the full prompt of a turn begin alike, and so do those of the turns before and after. How many tokens of
# the beginning decide where they meet, and how many requests more that engine may have than the least loaded one.
_BEGINNING = 128
_BUSIER_AT_MOST = 4

_NOTHING = EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)


@dataclass(eq=False, slots=True)
class _Slot:
    """One engine of the fleet, or the place where its replacement is being started."""

    number: int
    actor: Any = None
    line: Line | None = None  # to the actor
    ready: bool = False
    under_way: int = 0
    swaps: int = 0  # installs that were announced to the actor
    stats: EngineStats = _NOTHING

    def heard(self, stats: EngineStats) -> None:
        self.stats = stats

    def clear(self, reason: str) -> None:
        """End the engine. What is asked of it is lost."""
        if self.line is not None:
            self.line.close(reason)
        if self.actor is not None:
            end(self.actor)
        self.actor, self.line, self.ready = None, None, False


@dataclass(frozen=True, eq=False, slots=True)
class _Published:
    source: StoredWeights
    version: int


def start_fleet(
    demand: Demand,
    settings: EngineSection | TeacherSection,
    model: Path,
    runtime: RuntimeSection,
    adapter_rank: int = 0,
) -> Fleet:
    """Engines over a checkpoint folder that every machine can read. `open` brings them up."""
    make = actors(EngineActor, demand, settings.threads)
    settings = settings.model_copy(update={"device": "cuda" if demand.gpus else "cpu"})
    return Fleet(
        demand.name,
        demand.count,
        lambda: make(settings, model.absolute(), adapter_rank),
        settings.max_concurrency,
        runtime.request_seconds,
        runtime.call_seconds,
    )


class Fleet:
    """`start` makes an actor; it is called again for every replacement."""

    def __init__(
        self,
        name: str,
        count: int,
        start: Callable[[], Any],
        capacity: int = 256,
        request_seconds: float = 1800.0,
        call_seconds: float = 3600.0,
    ) -> None:
        """`capacity` is how many requests one engine runs at a time; the engine itself sees to that. An engine whose
        start or swap takes longer than `call_seconds` is lost."""
        self._name = name
        self._capacity = capacity
        self._request_seconds = request_seconds
        self._call_seconds = call_seconds
        self._version = 0
        self._start = start
        self._slots = [_Slot(number) for number in range(count)]
        self._published: _Published | None = None
        self._retired = _NOTHING
        self._failure: str | None = None
        self._changed = asyncio.Condition()
        self._background: set[asyncio.Task[None]] = set()
        self.replaced = 0

    async def open(self) -> None:
        """Start all engines at once; returns when the first is there. The others join when they are."""
        for slot in self._slots:
            self._begin(self._fill(slot))
        await self._choose()

    @property
    def version(self) -> int:
        return self._version

    @property
    def actors(self) -> list[Any]:
        """The engines that are up."""
        return [slot.actor for slot in self._slots if slot.ready]

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        ids = tuple(prompt_ids)
        completion: Completion = await self._ask(
            lambda swap: Generate(ids, sampling, priority, swap), ids[:_BEGINNING]
        )
        return completion

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        prompt, tokens = tuple(prompt_ids), tuple(token_ids)
        logprobs: tuple[float, ...] = await self._ask(lambda swap: Score(prompt, tokens, swap))
        return logprobs

    async def score_everywhere(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int]
    ) -> dict[str, tuple[float, ...]]:
        """As `score`, by each engine that is up. One that is lost meanwhile is replaced, and says nothing."""
        prompt, tokens = tuple(prompt_ids), tuple(token_ids)

        async def ask(slot: _Slot) -> tuple[float, ...] | None:
            line = slot.line
            assert line is not None
            try:
                async with asyncio.timeout(self._request_seconds):
                    logprobs: tuple[float, ...] = await line.ask(Score(prompt, tokens, slot.swaps))
            except _GONE:
                self._lose(slot, line.actor)
                return None
            return logprobs

        there = [slot for slot in self._slots if slot.ready]
        answers = await asyncio.gather(*map(ask, there))
        return {
            f"{self._name} {slot.number + 1} of {len(self._slots)}": answer
            for slot, answer in zip(there, answers, strict=True)
            if answer is not None
        }

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Publish weights. Those of a learner elsewhere (`StoredWeights`) never pass through this process."""
        source = weights if isinstance(weights, StoredWeights) else StoredWeights.of(weights, version)
        # Engines that are up get them now; those that are being started find them here before they are used.
        async with self._changed:
            self._published = _Published(source, version)
            there = [(slot, slot.actor) for slot in self._slots if slot.ready]
            self._changed.notify_all()
        arrived = await source.deliver([actor for _, actor in there], version)
        # From here on without waiting: what is asked for next must find the new weights.
        self._version = version
        for (slot, actor), delivered in zip(there, arrived, strict=True):
            if delivered is None:
                self._lose(slot, actor)
            elif slot.actor is actor:
                self._begin(self._installed(slot, actor, _install(slot, delivered)))

    def stats(self) -> EngineStats:
        """Sums over engines, also over those that are gone; counters are as of each engine's last answer."""
        total = self._retired
        for slot in self._slots:
            total = _sum(total, slot.stats)
        under_way = sum(slot.under_way for slot in self._slots)
        running = sum(min(slot.under_way, self._capacity) for slot in self._slots)
        return replace(total, running=running, waiting=under_way - running)

    async def close(self) -> None:
        """End all engines; what is pending fails. Closing twice is fine."""
        await self._fail("the engine is closed")
        await cancelled(list(self._background))
        for slot in self._slots:
            slot.clear("the engine is closed")

    async def _ask(self, request: Callable[[int], Request], beginning: tuple[int, ...] = ()) -> Any:
        """Ask an engine, or another one if that is lost. A request names the last swap that its engine knows of."""
        for _ in range(_LOST_AT_MOST):
            slot = await self._choose(beginning)
            line = slot.line
            assert line is not None
            slot.under_way += 1
            try:
                async with asyncio.timeout(self._request_seconds):
                    return await line.ask(request(slot.swaps))
            except _GONE:
                self._lose(slot, line.actor)
            finally:
                slot.under_way -= 1
        raise EngineError(
            f"a request lost {_LOST_AT_MOST} {self._name}s, one after the other; it is not made again"
        )

    async def _choose(self, beginning: tuple[int, ...] = ()) -> _Slot:
        """The engine for prompts that begin so, or the least loaded one; waits for one if none is up."""
        async with self._changed:
            while True:
                if self._failure is not None:
                    raise EngineError(self._failure)
                ready = [slot for slot in self._slots if slot.ready]
                if ready:
                    least = min(ready, key=lambda slot: slot.under_way)
                    usual = ready[hash(beginning) % len(ready)] if beginning else least
                    return usual if usual.under_way <= least.under_way + _BUSIER_AT_MOST else least
                await self._changed.wait()

    def _lose(self, slot: _Slot, actor: Any) -> None:
        """Replace an engine; whoever notices first does it."""
        if slot.actor is not actor or self._failure is not None:
            return
        slot.clear("the engine was lost")  # it may be unreachable instead of dead
        self._retired = _sum(self._retired, slot.stats)
        slot.stats = _NOTHING
        self.replaced += 1
        self._begin(self._fill(slot))

    async def _fill(self, slot: _Slot) -> None:
        """Start an engine for the slot; one that is lost on the way is replaced a few times."""
        for attempt in range(1, _STARTS_AT_MOST + 1):
            actor = slot.actor = self._start()
            slot.line, slot.swaps = Line(actor, slot.heard), 0
            try:
                await self._bring_up(slot, actor)
                return
            except _GONE as error:
                end(actor)
                failure = f"a {self._name} could not be started in {attempt} attempts: {error}"
            except ActfirstError as error:
                failure = f"a {self._name} could not be started: {error}"
                break
        await self._fail(failure)

    async def _bring_up(self, slot: _Slot, actor: Any) -> None:
        """Bring a new engine to the present weights, however often they change meanwhile."""
        await finished(actor.start.remote(), self._call_seconds)
        installed: _Published | None = None
        while True:
            async with self._changed:
                published = self._published
                if published is installed:
                    slot.ready = True
                    self._changed.notify_all()
                    return
            assert published is not None  # weights are never taken back
            try:
                (delivered,) = await published.source.deliver_late([actor])
            except LearnerLost:
                await self._other_weights(published)  # whoever notices this too comes back with some
                continue
            if delivered is None:
                raise Lost("it was lost while it took the weights")
            await finished(_install(slot, delivered), self._call_seconds)
            installed = published

    async def _other_weights(self, than: _Published) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._published is not than)

    async def _installed(self, slot: _Slot, actor: Any, call: Any) -> None:
        try:
            stats = await finished(call, self._call_seconds)
        except _GONE:
            self._lose(slot, actor)
        except EngineError as error:
            await self._fail(f"a {self._name} did not take the weights of update {self._version}: {error}")
        else:
            if slot.actor is actor:
                slot.stats = stats

    async def _fail(self, failure: str) -> None:
        async with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _install(slot: _Slot, version: int) -> Any:
    """Announce a swap. Ray may start calls in another order than they were made in, so swaps are numbered."""
    slot.swaps += 1
    return slot.actor.install.remote(version, slot.swaps)


def _sum(one: EngineStats, other: EngineStats) -> EngineStats:
    pairs = {field.name: getattr(one, field.name) + getattr(other, field.name) for field in fields(EngineStats)}
    return EngineStats(**pairs)
