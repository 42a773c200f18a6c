"""Requests to an actor and their answers: many in one call, and each one still by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("ray")

from actfirst.engines.base import Priority, Sampling
from actfirst.errors import EngineError
from actfirst.records import EngineStats
from actfirst.training.ray.calls import Lost
from actfirst.training.ray.desk import Answers, Generate, Parcel, Score
from actfirst.training.ray.line import Line
from tests.training.fake_actors import FakeEngine, FakeRay, fake_ray, settled

__all__ = ["fake_ray"]

SCORE = Score((1, 2), (3,), 0)


def line_to(engine: FakeEngine) -> Line:
    return Line(engine, lambda stats: None)


def begin(line: Line, count: int) -> list[asyncio.Task[Any]]:
    return [asyncio.ensure_future(line.ask(SCORE)) for _ in range(count)]


async def test_requests_of_one_turn_go_in_one_call_and_their_answers_come_in_one(fake_ray: FakeRay) -> None:
    engine = FakeEngine()
    assert await asyncio.gather(*begin(line_to(engine), 100)) == [(0.0,)] * 100
    assert [len(parcel.requests) for parcel in engine.parcels] == [100]
    assert engine.calls == ["take"]


async def test_whoever_asks_again_at_once_needs_one_call_a_round_for_all(fake_ray: FakeRay) -> None:
    engine = FakeEngine()
    line = line_to(engine)

    async def five_times() -> None:
        for _ in range(5):
            await line.ask(SCORE)

    await asyncio.gather(*(five_times() for _ in range(20)))
    assert [len(parcel.requests) for parcel in engine.parcels] == [20] * 5
    assert engine.calls == ["take"] * 5


async def test_what_is_asked_for_while_others_are_awaited_does_not_wait_for_their_answers(
    fake_ray: FakeRay,
) -> None:
    engine = FakeEngine()
    engine.gate.clear()
    line = line_to(engine)
    first = begin(line, 2)
    await settled()
    later = begin(line, 3)
    await settled()
    assert engine.calls == ["take", "give"]
    assert [len(parcel.requests) for parcel in engine.parcels] == [2, 3]
    engine.gate.set()
    assert await asyncio.gather(*first, *later) == [(0.0,)] * 5


async def test_an_answer_does_not_wait_for_others(fake_ray: FakeRay) -> None:
    class OneByOne(FakeEngine):
        async def score(self, request: Score) -> tuple[float, ...]:
            if request.prompt_ids:
                await self.gate.wait()
            return (float(len(request.prompt_ids)),)

    engine = OneByOne()
    engine.gate.clear()
    line = line_to(engine)
    long = begin(line, 1)[0]
    assert await line.ask(Score((), (3,), 0)) == (0.0,)
    assert await line.ask(Score((), (3,), 0)) == (0.0,)
    assert not long.done()
    engine.gate.set()
    assert await long == (2.0,)


async def test_a_request_fails_alone(fake_ray: FakeRay) -> None:
    class Odd(FakeEngine):
        async def score(self, request: Score) -> tuple[float, ...]:
            raise KeyError("no such thing")

    line = line_to(Odd())
    sampling = Sampling(4, seed=1)
    good, refused, broken = await asyncio.gather(
        line.ask(Generate((1,), sampling, Priority.FAST, 0)),
        line.ask(Generate((), sampling, Priority.FAST, 0)),
        line.ask(SCORE),
        return_exceptions=True,
    )
    assert good.token_ids == (0,)
    assert (type(refused), str(refused)) == (EngineError, "the prompt is empty")
    assert (type(broken), str(broken)) == (EngineError, "KeyError in a process of the run: 'no such thing'")


async def test_all_that_is_asked_of_an_actor_goes_with_it(fake_ray: FakeRay) -> None:
    engine = FakeEngine()
    engine.gate.clear()
    line = line_to(engine)
    asked = begin(line, 3)
    await settled()
    engine.die()
    found = await asyncio.gather(*asked, *begin(line, 1), return_exceptions=True)
    assert [type(one) for one in found] == [Lost] * 4
    with pytest.raises(Lost):
        await line.ask(SCORE)


async def test_a_call_that_fails_itself_loses_what_it_carried_instead_of_forgetting_it(
    fake_ray: FakeRay,
) -> None:
    class Unreadable(FakeEngine):
        async def on_give(self, parcel: Parcel) -> None:
            raise EngineError("Ray failed: it cannot be read")

    engine = Unreadable()
    engine.gate.clear()
    line = line_to(engine)
    asked = begin(line, 1)
    await settled()
    asked += begin(line, 1)
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(one) for one in found] == ["Ray failed: it cannot be read"] * 2


async def test_parcels_are_opened_in_the_order_of_their_turns(fake_ray: FakeRay) -> None:
    """So that a request that is taken back was there before, whatever Ray does."""
    engine = FakeEngine()
    engine.gate.clear()
    taking = asyncio.ensure_future(engine.desk.take(Parcel(2, {7: SCORE}, unwanted=(5,))))
    await settled()
    await engine.desk.give(Parcel(1, {5: SCORE, 6: SCORE}))
    await settled()
    engine.gate.set()
    answers = await taking
    assert answers == Answers({6: (0.0,), 7: (0.0,)}, {}, EngineStats(2, 0, 0, 2, 0, 0, 1.0, 0, 0))
