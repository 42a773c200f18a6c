"""Fast actions gate the environment: with `priority` they go first, with `preempt` they are admitted at once, and full
responses lose nothing. The paper names neither."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.embedded import EmbeddedEngine
from tests.engines.contract import LONG, Judge, MakeEngine, close, most_running, prompts, until


async def test_a_fast_request_does_not_wait_for_running_full_ones(
    make_embedded: MakeEngine, endless: Path
) -> None:
    engine = await make_embedded(endless, max_concurrency=3, preempt=True)
    full = [asyncio.create_task(engine.generate([5, 6, i], LONG)) for i in range(3)]
    await until(lambda: engine.stats().running == 3)
    before = engine.stats()
    await asyncio.gather(*(engine.generate([1, 2, i], Sampling(4, seed=i), Priority.FAST) for i in range(2)))
    assert not any(task.done() for task in full)
    assert engine.stats().steps - before.steps < 20  # a full response takes 2,000
    assert engine.stats().paused >= 1
    for task in full:
        task.cancel()


async def test_without_it_they_wait(make_embedded: MakeEngine, endless: Path) -> None:
    engine = await make_embedded(endless, max_concurrency=1)
    full = asyncio.create_task(engine.generate([5, 6, 7], Sampling(300, seed=0)))
    await until(lambda: engine.stats().running == 1)
    await engine.generate([1, 2], Sampling(2, seed=1), Priority.FAST)
    assert full.done()
    assert engine.stats().paused == 0


async def test_without_priority_requests_are_admitted_as_they_came_and_nothing_pauses(
    make_embedded: MakeEngine, endless: Path
) -> None:
    engine = await make_embedded(endless, max_concurrency=1, priority=False, preempt=True)
    order: list[str] = []

    async def request(name: str, priority: Priority) -> None:
        await engine.generate([1, 2, 3], Sampling(max_tokens=3, seed=0), priority)
        order.append(name)

    running = asyncio.create_task(engine.generate([5, 6, 7], LONG))
    await until(lambda: engine.stats().running == 1)
    queued = [
        asyncio.create_task(request("full 1", Priority.FULL)),
        asyncio.create_task(request("fast 1", Priority.FAST)),
        asyncio.create_task(request("full 2", Priority.FULL)),
        asyncio.create_task(request("fast 2", Priority.FAST)),
    ]
    await until(lambda: engine.stats().waiting == 4)
    running.cancel()
    await asyncio.gather(*queued)
    assert order == ["full 1", "fast 1", "full 2", "fast 2"]
    assert engine.stats().paused == 0
    assert (engine.stats().fast_ended, engine.stats().full_ended) == (2, 2)


async def test_the_cap_holds_and_pausing_changes_no_result(make_embedded: MakeEngine, endless: Path) -> None:
    engine, judge = await make_embedded(endless, max_concurrency=4, preempt=True), Judge(endless)
    given = prompts(26, seed=50)
    full = [asyncio.create_task(engine.generate(p, Sampling(150, seed=i))) for i, p in enumerate(given[:10])]
    await until(lambda: engine.stats().running == 4)

    async def chain(first: int) -> None:
        for i in range(first, first + 4):
            done = await engine.generate(given[i], Sampling(3 + i % 4, seed=i), Priority.FAST)
            assert close(done.logprobs, judge.logprobs(given[i], done.token_ids), 1e-4)

    fast = asyncio.gather(*(chain(first) for first in (10, 14, 18, 22)))
    assert await most_running(engine, fast) == 4
    await fast
    assert engine.stats().paused > 3
    for prompt, task in zip(given, full):
        done = await task
        assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)
    assert engine.stats().running == engine.stats().waiting == 0


async def test_paused_responses_end_on_the_weights_on_which_they_began(
    make_embedded: MakeEngine, endless: Path
) -> None:
    engine = await make_embedded(endless, max_concurrency=1, preempt=True)
    assert isinstance(engine, EmbeddedEngine)
    old, new = Judge(endless), Judge(endless)
    full = asyncio.create_task(engine.generate([5, 6, 7], Sampling(200, seed=0)))
    await until(lambda: engine.stats().generated_tokens > 10)
    fast = asyncio.create_task(engine.generate([1, 2], Sampling(100, seed=1), Priority.FAST))
    await until(lambda: engine.stats().paused == 1)
    await engine.load_weights(new.perturb(seed=1), 1)
    for prompt, task in (([5, 6, 7], full), ([1, 2], fast)):
        done = await task
        assert done.version == 0
        assert close(done.logprobs, old.logprobs(prompt, done.token_ids), 1e-4)


async def test_cancelling_a_paused_response_leaves_nothing(make_embedded: MakeEngine, endless: Path) -> None:
    engine = await make_embedded(endless, max_concurrency=1, preempt=True)
    full = asyncio.create_task(engine.generate([5, 6, 7], LONG))
    await until(lambda: engine.stats().running == 1)
    fast = asyncio.create_task(engine.generate([1, 2], Sampling(300, seed=1), Priority.FAST))
    await until(lambda: engine.stats().paused == 1)
    full.cancel()
    assert len((await fast).token_ids) == 300
    await until(lambda: engine.stats().running == engine.stats().waiting == 0)
    assert full.cancelled()
    assert engine.stats().full_ended == 0


async def test_time_and_tokens_are_counted_by_class(make_embedded: MakeEngine, endless: Path) -> None:
    engine = await make_embedded(endless, prefix_caching=True)
    shared = list(range(100, 148))
    await engine.generate([*shared, 1, 2], Sampling(2, seed=0), Priority.FAST)
    await engine.generate([*shared, 3], Sampling(30, seed=0))
    stats = engine.stats()
    assert (stats.fast_ended, stats.full_ended) == (1, 1)
    assert stats.fast_seconds > 0
    assert stats.full_seconds > 0
    assert (stats.fast_prefilled_tokens, stats.prefilled_tokens) == (50, 51)
    assert (stats.fast_cached_tokens, stats.cached_tokens) == (0, 48)
