"""Rollout drivers: however many play a batch, it is the batch of one process, also when one of them is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("ray")

from pathlib import Path

import ray.cloudpickle

from actfirst.config.load import resolve
from actfirst.errors import ConfigError, EngineError, RolloutError
from actfirst.methods.acting import TrainingPoint
from actfirst.methods.table import METHODS
from actfirst.rollout.collect import Collector, RolloutBatch
from actfirst.rollout.share import Share
from actfirst.training.ray.drivers import Drivers, RolloutActor
from actfirst.training.ray.relay import Exchange
from tests.support.collecting import Bench, bench, corridor_tasks, perfect
from tests.support.scripted import Request
from tests.training.fake_actors import FakeRay, InProcess, Method, fake_ray, settled

__all__ = ["fake_ray"]

POINT = TrainingPoint(0, 0, 10)


class Corridor(RolloutActor):
    """A driver in the world of a test."""

    def __init__(self, made: Bench) -> None:
        super().__init__(resolve("pocket", []), Path("student"))
        self._made = made

    async def start(self) -> None:
        player = self._made.collector.player
        self._player = replace(player, policy=replace(player.policy, engine=self._relay))


class Counted(InProcess):
    """Counts calls, and can die when one of them is made."""

    dies_at: str = ""

    def __getattr__(self, name: str) -> Method:
        self.calls.append(name)
        if name == self.dies_at:
            self.die()
        return super().__getattr__(name)


class Troupe:
    """The drivers of a bench, and the actors that were made for them."""

    def __init__(self, made: Bench, size: int, dies_at: Callable[[int], str] = lambda number: "") -> None:
        self.actors: list[Counted] = []
        self._made = made
        self._dies_at = dies_at
        self.drivers = Drivers(size, self._start, lambda actor: Exchange(actor, made.engine, made.teacher))
        self.collector: Collector = replace(made.collector, elsewhere=self.drivers.begin)

    def _start(self) -> Counted:
        actor = Counted(Corridor(self._made))
        actor.dies_at = self._dies_at(len(self.actors))
        self.actors.append(actor)
        return actor

    async def collect(self, tasks: int = 5, **more: Any) -> RolloutBatch:
        try:
            return await self.collector.collect(3, corridor_tasks(tasks), POINT, **more)
        finally:
            await self.drivers.close()


def played(batch: RolloutBatch) -> list[object]:
    """All of a batch that does not depend on time."""
    episodes = [
        (one.id, one.task, one.error, [(turn.action, turn.source, turn.response) for turn in one.turns])
        for one in batch.episodes
    ]
    stats = replace(batch.stats, seconds=0.0)
    return [episodes, batch.samples, batch.discarded, stats, batch.depth, batch.probe]


@pytest.mark.parametrize("drivers", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("method", "budget"), [("actfirst", 6), ("actfirst", None), ("vanilla", None), ("tcod-f2b", None)]
)
async def test_several_drivers_play_the_batch_of_one_process(
    fake_ray: FakeRay, method: str, budget: int | None, drivers: int
) -> None:
    here = await bench(method, perfect, budget=budget).collector.collect(3, corridor_tasks(5), POINT)
    assert here.samples
    there = await Troupe(bench(method, perfect, budget=budget), drivers).collect()
    assert played(there) == played(here)


@pytest.mark.parametrize("expected", [0.0, 30.0, 1000.0])
async def test_admission_is_that_of_the_whole_batch(fake_ray: FakeRay, expected: float) -> None:
    """However early responses begin, and whoever has the contexts of smallest rank."""
    more = {"expected_contexts": expected, "buffered": 2}
    here = await bench("actfirst", perfect, budget=8).collector.collect(3, corridor_tasks(5), POINT, **more)  # type: ignore[arg-type]
    there = await Troupe(bench("actfirst", perfect, budget=8), 3).collect(**more)
    assert len(there.samples) == 6
    assert played(there) == played(here)


@pytest.mark.parametrize("call", ["interact", "finish"])
async def test_a_driver_that_is_lost_only_delays_a_batch(fake_ray: FakeRay, call: str) -> None:
    here = await bench("actfirst", perfect, budget=6).collector.collect(3, corridor_tasks(5), POINT)
    made = bench("actfirst", perfect, budget=6)
    troupe = Troupe(made, 2, lambda number: call if number == 1 else "")
    assert played(await troupe.collect()) == played(here)
    assert troupe.drivers.replaced == 1
    assert len(troupe.actors) == 3


async def test_a_driver_that_dies_while_it_waits_for_an_engine_is_replaced(fake_ray: FakeRay) -> None:
    made = bench("actfirst", perfect, budget=6)
    gate = asyncio.Event()
    generate = made.engine.generate

    async def gated(*arguments: Any) -> Any:
        await gate.wait()
        return await generate(*arguments)

    made.engine.generate = gated  # type: ignore[method-assign]
    troupe = Troupe(made, 2)
    batch = asyncio.ensure_future(troupe.collect())
    await settled()
    troupe.actors[0].die()
    gate.set()
    here = await bench("actfirst", perfect, budget=6).collector.collect(3, corridor_tasks(5), POINT)
    assert played(await batch) == played(here)
    assert troupe.drivers.replaced == 1


async def test_tasks_that_lose_one_driver_after_the_other_end_the_run(fake_ray: FakeRay) -> None:
    troupe = Troupe(bench("actfirst", perfect), 1, lambda number: "interact")
    with pytest.raises(RolloutError, match="lost 4 rollout drivers"):
        await troupe.collect()


async def test_what_an_engine_raises_reaches_the_run_as_it_is(fake_ray: FakeRay) -> None:
    def broken(request: Request) -> str:
        raise EngineError("the engine is closed")

    with pytest.raises(EngineError, match="the engine is closed"):
        await Troupe(bench("actfirst", broken), 2).collect()


async def test_a_batch_that_nobody_wants_any_more_leaves_nothing_under_way(fake_ray: FakeRay) -> None:
    """Its requests are taken back, and the next batch is played by the same drivers."""
    made = bench("actfirst", perfect, budget=6)
    made.engine.delay = lambda request: 3600.0
    troupe = Troupe(made, 2)
    unwanted = asyncio.ensure_future(troupe.collector.collect(2, corridor_tasks(5), POINT))
    await settled()
    asked = len(made.engine.requests)
    assert asked
    unwanted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unwanted
    made.engine.delay = lambda request: 0.0
    await settled()
    assert len(made.engine.requests) == asked
    here = await bench("actfirst", perfect, budget=6).collector.collect(3, corridor_tasks(5), POINT)
    assert played(await troupe.collect()) == played(here)
    assert len(troupe.actors) == 2


async def test_requests_and_answers_that_meet_travel_together(fake_ray: FakeRay) -> None:
    made = bench("actfirst", perfect)
    troupe = Troupe(made, 1)
    await troupe.collect()
    calls = sum(name in ("wishes", "granted") for name in troupe.actors[0].calls)
    assert calls < (len(made.engine.requests) + len(made.teacher.scored)) / 2  # type: ignore[attr-defined]


async def test_the_run_hears_of_every_episode(fake_ray: FakeRay) -> None:
    heard: list[str] = []
    await Troupe(bench("vanilla", perfect), 2).collect(on_episode=lambda episode: heard.append(episode.id))
    assert heard == [f"b00003-{place:03d}" for place in range(5)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_travel(method: str) -> None:
    row = METHODS[method]
    tasks = tuple(enumerate(corridor_tasks(3)))
    share = Share(0, tasks, 7, row, POINT, 10, None, "position", scored=True, begun=0.0)
    assert ray.cloudpickle.loads(ray.cloudpickle.dumps(share)).method.title == row.title


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("runtime.rollout_drivers=2",), "needs several processes"),
        (
            ("runtime.kind=ray", "runtime.rollout_drivers=2", "runtime.environment_workers=1"),
            "play environments themselves",
        ),
        (
            ("runtime.kind=ray", "runtime.rollout_drivers=2", "references.source=rollouts"),
            "the run's own process alone",
        ),
    ],
)
def test_what_drivers_cannot_do_is_refused(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve("pocket", settings)
