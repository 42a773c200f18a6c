"""Actors without Ray: calls are tasks of this process, and an actor can die whenever a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from ray.exceptions import RayActorError

from actfirst.errors import EngineError
from actfirst.records import Completion, EngineStats, StopReason
from actfirst.training.ray.desk import Answers, Desk, Generate, Parcel, Request, Score


async def settled() -> None:
    """Let everything happen that can happen by itself."""
    for _ in range(30):
        await asyncio.sleep(0)


class Method:
    """`actor.name.remote(...)`: begins the call and returns something to await."""

    def __init__(self, actor: FakeActor, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._actor = actor
        self._call = call

    def remote(self, *arguments: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._actor.alive_during(lambda: self._call(*arguments)))


class FakeActor:
    """Whatever is called `on_x` can be called as `x.remote`."""

    def __init__(self) -> None:
        self.dead = asyncio.Event()
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Method:
        call = getattr(type(self), f"on_{name}", None)
        if call is None:
            raise AttributeError(name)
        self.calls.append(name)
        return Method(self, call.__get__(self))

    async def alive_during(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        task, death = asyncio.ensure_future(work()), asyncio.ensure_future(self.dead.wait())
        try:
            await asyncio.wait([task, death], return_when=asyncio.FIRST_COMPLETED)
            if self.dead.is_set():
                raise RayActorError
            return task.result()
        finally:
            task.cancel()
            death.cancel()

    def die(self) -> None:
        self.dead.set()


class InProcess(FakeActor):
    """A real actor's object whose calls are made in this process."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def __getattr__(self, name: str) -> Method:
        return Method(self, getattr(self.inner, name))


class FakeEngine(FakeActor):
    """Answers when `gate` is open; a completion's only token is the number of the engine.

    It has weights when they have `travelled`.
    """

    made: list[FakeEngine]

    def __init__(self, version: int = 0) -> None:
        super().__init__()
        self.number = len(self.made)
        self.made.append(self)
        self.version = version
        self.fetched: int | None = None
        self.gate, self.travelled, self.started = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for event in (self.gate, self.travelled, self.started):
            event.set()
        self.answered = 0
        self.failure: EngineError | None = None
        self.swaps = 0
        self.desk = FakeDesk(self)
        self.parcels: list[Parcel] = []

    async def on_start(self) -> None:
        await self.started.wait()

    async def on_give(self, parcel: Parcel) -> None:
        self.parcels.append(parcel)
        await self.desk.give(parcel)

    async def on_take(self, parcel: Parcel) -> Answers:
        self.parcels.append(parcel)
        return await self.desk.take(parcel)

    async def generate(self, request: Generate) -> Completion:
        version = self.version
        if not request.prompt_ids:
            raise EngineError("the prompt is empty")
        await self._answer()
        return Completion((self.number,), (-1.0,), StopReason.EOS, version)

    async def score(self, request: Score) -> tuple[float, ...]:
        """The only score is the number of the engine."""
        await self._answer()
        return (float(self.number),)

    def stats(self) -> EngineStats:
        return EngineStats(self.answered, 0, 0, self.answered, 0, 0, 1.0, 0, 0)

    async def _answer(self) -> None:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.answered += 1

    async def on_fetch(self, references: list[Any], version: int) -> None:
        await self.travelled.wait()
        self.fetched = version

    async def on_install(self, version: int, swap: int) -> EngineStats:
        assert self.fetched == version
        assert swap == self.swaps + 1
        self.swaps = swap
        self.version = version
        return self.stats()


class FakeDesk(Desk):
    """The real way of requests and answers to a fake engine."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__()
        self._engine = engine

    async def answer(self, request: Request) -> Any:
        engine = self._engine
        return await (engine.generate(request) if isinstance(request, Generate) else engine.score(request))

    def stats(self) -> EngineStats:
        return self._engine.stats()


class FakeRay:
    """What the runtime calls of Ray itself."""

    def __init__(self) -> None:
        self.cancelled: list[Any] = []

    def put(self, value: Any) -> Any:
        stored = asyncio.get_running_loop().create_future()
        stored.set_result(value)
        return stored

    def kill(self, actor: FakeActor) -> None:
        actor.die()

    def cancel(self, reference: Any) -> None:
        self.cancelled.append(reference)


@pytest.fixture
def fake_ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    from actfirst.training.ray import calls, learner, publish

    fake = FakeRay()
    for module in (calls, publish, learner):
        monkeypatch.setattr(module, "ray", fake)
    FakeEngine.made = []
    return fake
