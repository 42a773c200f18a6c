"""Several engines behind the engine contract: who gets a request, what a loss costs, when new weights count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import torch

pytest.importorskip("ray")

from ray.exceptions import ObjectLostError

from actfirst.engines.base import Sampling
from actfirst.errors import EngineDied, EngineError, LearnerLost
from actfirst.records import EngineStats
from actfirst.training.ray.desk import Score
from actfirst.training.ray.fleet import Fleet
from actfirst.training.ray.publish import Stored, StoredWeights
from tests.training.fake_actors import FakeEngine, FakeRay, fake_ray, settled

__all__ = ["fake_ray"]

SAMPLING = Sampling(4, seed=1)
WEIGHTS = {"w": torch.zeros(2)}


@pytest.fixture
async def fleet(fake_ray: FakeRay) -> AsyncIterator[Fleet]:
    made = Fleet("engine", 2, FakeEngine)
    await made.open()
    await settled()
    yield made
    await made.close()


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


def ask(fleet: Fleet) -> asyncio.Task[int]:
    """The number of the engine that answers. Scores, because their place depends on the load alone."""

    async def number() -> int:
        return int((await fleet.score([1, 2], [3]))[0])

    return asyncio.ensure_future(number())


async def test_a_request_goes_to_the_engine_with_the_fewest_under_way(fleet: Fleet) -> None:
    first, second = FakeEngine.made
    first.gate.clear()
    second.gate.clear()
    asked = []
    for _ in range(4):
        asked.append(ask(fleet))
        await settled()
    second.gate.set()
    await until(lambda: sum(task.done() for task in asked) == 2)
    asked.append(ask(fleet))  # the second engine is free now
    await settled()
    first.gate.set()
    assert sorted(await asyncio.gather(*asked)) == [0, 0, 1, 1, 1]
    assert fleet.stats().requests == 5


async def test_prompts_that_begin_alike_meet_on_one_engine_until_it_is_much_busier(fleet: Fleet) -> None:
    for engine in FakeEngine.made:
        engine.gate.clear()
    beginning = tuple(range(128))
    asked = []
    for last in range(8):
        asked.append(asyncio.ensure_future(fleet.generate([*beginning, last], SAMPLING)))
        await settled()
    for engine in FakeEngine.made:
        engine.gate.set()
    numbers = [(await task).token_ids[0] for task in asked]
    usual = numbers[0]
    # Five more than none are too many; then both get one in turn.
    assert [number == usual for number in numbers] == [True] * 5 + [False, True, False]


async def test_prompts_that_begin_otherwise_are_spread(fleet: Fleet) -> None:
    numbers = [(await fleet.generate([first] * 128, SAMPLING)).token_ids[0] for first in range(20)]
    again = [(await fleet.generate([first] * 128 + [7], SAMPLING)).token_ids[0] for first in range(20)]
    assert set(numbers) == {0, 1}
    assert numbers == again


async def test_an_engine_that_does_not_answer_in_time_is_replaced(fake_ray: FakeRay) -> None:
    fleet = Fleet("engine", 1, FakeEngine, request_seconds=0.05)
    await fleet.open()
    FakeEngine.made[0].gate.clear()
    assert await ask(fleet) == 1
    assert FakeEngine.made[0].dead.is_set()
    assert fleet.replaced == 1
    await fleet.close()


async def test_requests_of_a_lost_engine_are_made_again_and_it_is_replaced(fleet: Fleet) -> None:
    first = FakeEngine.made[0]
    first.gate.clear()
    asked = [ask(fleet), ask(fleet), ask(fleet)]
    await settled()
    first.die()
    assert 0 not in await asyncio.gather(*asked)
    await until(lambda: len(fleet.actors) == 2)
    assert [engine.number for engine in FakeEngine.made] == [0, 1, 2]
    assert fleet.replaced == 1


async def test_counters_of_a_lost_engine_are_not_forgotten(fleet: Fleet) -> None:
    for _ in range(4):
        await ask(fleet)
    before = fleet.stats()
    FakeEngine.made[0].die()
    await ask(fleet)
    await until(lambda: len(fleet.actors) == 2)
    assert fleet.stats().requests == before.requests + 1
    assert fleet.stats().busy_seconds >= before.busy_seconds


async def test_without_any_engine_a_request_waits_for_the_next_one(fake_ray: FakeRay) -> None:
    fleet = Fleet("engine", 1, FakeEngine)
    await fleet.open()
    FakeEngine.made[0].die()
    assert await ask(fleet) == 1
    await fleet.close()


async def test_a_request_that_kills_every_engine_is_given_up(fake_ray: FakeRay) -> None:
    class Mortal(FakeEngine):
        async def score(self, request: Score) -> tuple[float, ...]:
            self.die()
            return await asyncio.Event().wait() and ()

    fleet = Fleet("engine", 1, Mortal)
    await fleet.open()
    with pytest.raises(EngineError, match="a request lost 4 engines"):
        await ask(fleet)
    await fleet.close()


async def test_an_engine_that_ended_by_a_failure_is_replaced_though_its_process_lives(
    fleet: Fleet,
) -> None:
    FakeEngine.made[0].failure = EngineDied("the engine died of MemoryError")
    assert 0 not in await asyncio.gather(*(ask(fleet) for _ in range(4)))
    await until(lambda: len(fleet.actors) == 2)
    assert FakeEngine.made[0].dead.is_set()
    assert fleet.replaced == 1


async def test_an_engine_that_dies_of_new_weights_is_replaced(fake_ray: FakeRay) -> None:
    class Delicate(FakeEngine):
        async def on_install(self, version: int, swap: int) -> EngineStats:
            if self.number == 0:
                raise EngineDied("the engine died of MemoryError")
            return await super().on_install(version, swap)

    fleet = Fleet("engine", 1, Delicate)
    await fleet.open()
    await fleet.load_weights(WEIGHTS, 1)
    await until(lambda: fleet.replaced == 1)
    assert (await fleet.generate([1], SAMPLING)).version == 1
    await fleet.close()


async def test_weights_that_every_engine_dies_of_end_the_fleet(fake_ray: FakeRay) -> None:
    class Doomed(FakeEngine):
        async def on_install(self, version: int, swap: int) -> EngineStats:
            raise EngineDied("the engine died of MemoryError")

    fleet = Fleet("engine", 1, Doomed)
    await fleet.open()
    await fleet.load_weights(WEIGHTS, 1)
    await until(lambda: fleet.replaced == 1)
    with pytest.raises(EngineError, match="could not be started in 3 attempts: the engine died of MemoryError"):
        await ask(fleet)
    await fleet.close()


async def test_an_engine_that_refuses_a_request_is_not_lost(fleet: Fleet) -> None:
    with pytest.raises(EngineError, match="the prompt is empty"):
        await fleet.generate([], SAMPLING)
    assert fleet.replaced == 0


async def test_an_engine_that_cannot_start_fails_the_fleet(fake_ray: FakeRay) -> None:
    class Broken(FakeEngine):
        async def on_start(self) -> None:
            raise EngineError("no memory")

    fleet = Fleet("engine", 1, Broken)
    with pytest.raises(EngineError, match="engine could not be started: no memory"):
        await fleet.open()
    await fleet.close()


async def test_an_engine_that_never_starts_is_given_up_and_tried_again(fake_ray: FakeRay) -> None:
    class Silent(FakeEngine):
        async def on_start(self) -> None:
            await asyncio.Event().wait()

    fleet = Fleet("engine", 1, Silent, call_seconds=0.01)
    with pytest.raises(EngineError, match=r"could not be started in 3 attempts: no answer in 0\.01 s"):
        await fleet.open()
    assert len(FakeEngine.made) == 3
    await fleet.close()


async def test_an_engine_that_never_swaps_is_replaced(fake_ray: FakeRay) -> None:
    class Stuck(FakeEngine):
        async def on_install(self, version: int, swap: int) -> EngineStats:
            if self.number == 0:
                await asyncio.Event().wait()
            return await super().on_install(version, swap)

    fleet = Fleet("engine", 1, Stuck, call_seconds=0.01)
    await fleet.open()
    await fleet.load_weights(WEIGHTS, 1)
    while not fleet.replaced:  # noqa: ASYNC110 (nothing tells)
        await asyncio.sleep(0.001)
    assert await ask(fleet) == 1
    await fleet.close()


async def test_cancelling_a_request_takes_it_back_alone(fake_ray: FakeRay) -> None:
    fleet = Fleet("engine", 1, FakeEngine)
    await fleet.open()
    (engine,) = FakeEngine.made
    engine.gate.clear()
    asked, kept = ask(fleet), ask(fleet)
    await settled()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert fleet.stats().running + fleet.stats().waiting == 1
    await settled()
    engine.gate.set()
    assert await kept == 0
    assert engine.answered == 1
    assert fleet.replaced == 0
    await fleet.close()


async def test_a_request_that_is_cancelled_at_once_is_never_sent(fleet: Fleet) -> None:
    asked = ask(fleet)
    await asyncio.sleep(0)
    asked.cancel()
    await settled()
    assert [engine.parcels for engine in FakeEngine.made] == [[], []]
    assert asked.cancelled()


async def test_engines_work_with_old_weights_while_new_ones_travel(fleet: Fleet) -> None:
    first, second = FakeEngine.made
    first.travelled.clear()
    loading = asyncio.ensure_future(fleet.load_weights(WEIGHTS, 1))
    await settled()
    assert second.fetched == 1
    assert second.version == 0
    assert not loading.done()
    assert fleet.version == 0
    assert (await fleet.generate([1], SAMPLING)).version == 0
    first.travelled.set()
    await loading
    assert fleet.version == 1
    assert {(await fleet.generate([1], SAMPLING)).version for _ in range(4)} == {1}


async def test_a_replacement_has_the_newest_weights_before_it_is_used(fleet: Fleet) -> None:
    await fleet.load_weights(WEIGHTS, 1)
    FakeEngine.made[0].die()
    await asyncio.gather(ask(fleet), ask(fleet))
    await until(lambda: len(FakeEngine.made) == 3)
    await until(lambda: len(fleet.actors) == 2)
    assert FakeEngine.made[2].version == 1


async def test_weights_that_change_while_an_engine_starts_reach_it_too(fake_ray: FakeRay) -> None:
    fleet = Fleet("engine", 2, FakeEngine)
    opening = asyncio.ensure_future(fleet.open())
    await until(lambda: len(FakeEngine.made) == 2)
    second = FakeEngine.made[1]
    second.started.clear()
    second.travelled.clear()
    await opening
    await fleet.load_weights(WEIGHTS, 1)
    second.started.set()
    await until(lambda: "fetch" in second.calls)  # it is taking version 1
    await fleet.load_weights(WEIGHTS, 2)
    second.travelled.set()
    await until(lambda: len(fleet.actors) == 2)
    assert [engine.version for engine in FakeEngine.made] == [2, 2]
    await fleet.close()


async def test_an_engine_lost_while_it_takes_weights_delays_nobody(fleet: Fleet) -> None:
    first = FakeEngine.made[0]
    first.travelled.clear()
    loading = asyncio.ensure_future(fleet.load_weights(WEIGHTS, 1))
    await settled()
    first.die()
    await loading
    assert (await fleet.generate([1], SAMPLING)).version == 1
    await until(lambda: len(fleet.actors) == 2)
    assert [engine.version for engine in FakeEngine.made[1:]] == [1, 1]


async def test_a_replacement_waits_for_other_weights_when_the_present_ones_went_with_the_learner(
    fleet: Fleet,
) -> None:
    class Gone(StoredWeights):
        async def deliver(self, actors: Sequence[Any], version: int) -> list[int | None]:
            for actor in actors:
                actor.fetched = version
            return [version] * len(actors)

    async def put() -> Stored:
        raise LearnerLost("nobody is left who has them")

    await fleet.load_weights(Gone(put), 5)
    FakeEngine.made[0].die()
    await asyncio.gather(ask(fleet), ask(fleet))
    await settled()
    assert len(fleet.actors) == 1  # the replacement is there but has nothing to work with
    await fleet.load_weights(WEIGHTS, 3)  # the run went back to a checkpoint
    await until(lambda: len(fleet.actors) == 2)
    await settled()
    assert {engine.version for engine in FakeEngine.made[1:]} == {3}


async def test_weights_that_went_with_their_owner_are_put_again(fake_ray: FakeRay) -> None:
    versions = iter((4, 5))

    async def put() -> Stored:
        return Stored(next(versions), [])

    class Forgetful(FakeEngine):
        async def on_fetch(self, references: list[object], version: int) -> None:
            if version == 4:
                raise ObjectLostError("ab", "owner", "")
            self.fetched = version

    assert await StoredWeights(put).deliver([Forgetful()], 4) == [5]


async def test_what_is_pending_when_the_fleet_is_closed_fails(fake_ray: FakeRay) -> None:
    fleet = Fleet("engine", 1, FakeEngine)
    await fleet.open()
    FakeEngine.made[0].gate.clear()
    asked = ask(fleet)
    await settled()
    await fleet.close()
    with pytest.raises(EngineError, match="closed"):
        await asked
    await fleet.close()
