"""A fleet of engines passes the contract of one engine. Its actors run in this process: what Ray itself does is
tested in tests/training/test_ray_cluster.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("ray")

from actfirst.config.engine_sections import EngineSection
from actfirst.engines.base import Engine, Sampling
from actfirst.errors import EngineError
from actfirst.training.ray.engine_actor import EngineActor
from actfirst.training.ray.fleet import Fleet
from tests.engines.contract import EngineContract, Judge, MakeEngine, close, prompts, until
from tests.training.fake_actors import FakeRay, InProcess, fake_ray

__all__ = ["fake_ray"]


@pytest.fixture
async def make_engine(fake_ray: FakeRay) -> AsyncIterator[MakeEngine]:
    fleets: list[Fleet] = []
    inner: list[EngineActor] = []

    async def make(folder: Path, *, max_concurrency: int = 32) -> Fleet:
        settings = EngineSection(max_concurrency=max_concurrency, dtype="float32", threads=1)

        def start() -> InProcess:
            inner.append(EngineActor(settings, folder))
            return InProcess(inner[-1])

        fleets.append(Fleet("engine", 1, start, max_concurrency))
        await fleets[-1].open()
        return fleets[-1]

    yield make
    for fleet in fleets:
        await fleet.close()
    for actor in inner:
        await actor._engine.close()


def inside(fleet: Engine) -> Engine:
    """The only engine of a fleet."""
    assert isinstance(fleet, Fleet)
    engine: Engine = fleet.actors[0].inner._engine
    return engine


class TestFleet(EngineContract):
    """Two rules are met in another way: `load_weights` returns when the weights have arrived, not when every engine
    has finished its old requests; and engines that refuse weights end the fleet, because nobody is left to tell."""

    async def test_new_weights_come_between_requests_and_leave_nothing_stale(
        self, make_engine: MakeEngine, endless: Path
    ) -> None:
        judge, before, given = Judge(endless), Judge(endless), prompts(4, seed=15)
        engine = await make_engine(endless, max_concurrency=2)
        long = Sampling(max_tokens=400, seed=1)
        old = [asyncio.create_task(engine.generate(p, long)) for p in given[:2]]
        await until(lambda: inside(engine).stats().running == 2)  # there, and not only on the way
        waiting = asyncio.create_task(engine.generate(given[2], Sampling(max_tokens=10, seed=2)))
        await until(lambda: inside(engine).stats().waiting == 1)
        await engine.load_weights(judge.perturb(seed=1), 4)
        assert not any(task.done() for task in old)  # nobody waited for them
        assert engine.version == 4
        after = asyncio.create_task(engine.generate(given[3], Sampling(max_tokens=10, seed=2)))
        for prompt, task in zip(given, old):
            done = await task
            assert done.version == 0
            assert close(done.logprobs, before.logprobs(prompt, done.token_ids), self.tolerance)
        for prompt, task in zip(given[2:], (waiting, after), strict=True):
            done = await task
            assert done.version == 4
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), self.tolerance)

    async def test_impossible_requests_are_refused_with_the_numbers(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        with pytest.raises(EngineError, match="empty"):
            await engine.generate([], Sampling(max_tokens=1))
        with pytest.raises(EngineError, match="vocabulary"):
            await engine.generate([1, 5000], Sampling(max_tokens=1))
        weights = dict(judge.model.state_dict())
        del weights["model.norm.weight"]
        await engine.load_weights(weights, 1)
        asked = asyncio.gather(*(engine.generate([1], Sampling(max_tokens=1)) for _ in range(3)))
        await asyncio.wait([asked])
        with pytest.raises(EngineError, match=r"did not take the weights of update 1: .*model\.norm\.weight"):
            await engine.generate([1], Sampling(max_tokens=1))
