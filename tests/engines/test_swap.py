"""What new weights mean for requests that have begun (`engine.swap`), by the log-prob of every token."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
import torch

from actfirst.config.engine_sections import EngineSection
from actfirst.config.load import resolve
from actfirst.engines.base import Draft, Priority, Sampling
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.errors import ConfigError
from tests.engines.contract import LONG, Judge, MakeEngine, close, most_running, prompts, until

FULL = Sampling(max_tokens=300, seed=1)


@torch.no_grad()
def continued(old: Judge, new: Judge, prompt: list[int], tokens: tuple[int, ...], count: int) -> list[float]:
    """Log-probs of `tokens` after the first `count`: by `new`, over keys and values of `old` for all before them."""
    ids = torch.tensor([[*prompt, *tokens]])
    known = len(prompt) + count - 1  # the newest token has no keys yet when weights are swapped
    kept = old.model(ids[:, :known], use_cache=True).past_key_values
    logits = new.model(ids[:, known:-1], past_key_values=kept).logits[0]
    rows = torch.log_softmax(logits.double(), -1)
    return [row[token].item() for row, token in zip(rows, tokens[count:], strict=True)]


def agreeing(one: tuple[float, ...], other: list[float]) -> int:
    """How many log-probs agree before the first that does not."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if abs(a - b) > 1e-4), len(one))


class TestBeside:
    async def test_what_has_begun_ends_on_the_old_weights_while_others_begin_on_the_new(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine = await make_embedded(endless, max_concurrency=6, swap="beside")
        old, new, given = Judge(endless), Judge(endless), prompts(6, seed=60)
        begun = [asyncio.create_task(engine.generate(p, Sampling(1200, seed=1))) for p in given[:3]]
        await until(lambda: engine.stats().generated_tokens > 20)
        await engine.load_weights(new.perturb(seed=1), 4)
        assert engine.version == 4
        # The same prompts again: what the old weights left in the prefix cache must not be found.
        later = await asyncio.gather(*(engine.generate(p, Sampling(12, seed=2)) for p in given))
        assert not any(task.done() for task in begun)
        for prompt, done in zip(given, later, strict=True):
            assert done.version == 4
            assert close(done.logprobs, new.logprobs(prompt, done.token_ids), 1e-4)
        for prompt, task in zip(given, begun):
            done = await task
            assert done.version == 0
            assert close(done.logprobs, old.logprobs(prompt, done.token_ids), 1e-4)

    async def test_what_waits_runs_on_the_new_weights_and_the_cap_holds_over_both(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine = await make_embedded(endless, max_concurrency=3, swap="beside")
        judge, given = Judge(endless), prompts(8, seed=61)
        begun = [asyncio.create_task(engine.generate(p, FULL)) for p in given[:3]]
        await until(lambda: engine.stats().running == 3)
        waiting = asyncio.gather(*(engine.generate(p, Sampling(30, seed=2)) for p in given[3:]))
        await until(lambda: engine.stats().waiting == 5)
        await engine.load_weights(judge.perturb(seed=1), 1)
        assert await most_running(engine, waiting) <= 3
        assert {(await task).version for task in begun} == {0}
        for prompt, done in zip(given[3:], await waiting, strict=True):
            assert done.version == 1
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)

    async def test_a_third_set_waits_for_the_first_while_requests_go_on(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine, judge = await make_embedded(endless, swap="beside"), Judge(endless)
        oldest = asyncio.create_task(engine.generate([5, 6], LONG))
        await until(lambda: engine.stats().running == 1)
        await engine.load_weights(judge.perturb(seed=1), 1)
        older = asyncio.create_task(engine.generate([5, 7], LONG))
        await until(lambda: engine.stats().running == 2)
        third = asyncio.create_task(engine.load_weights(judge.perturb(seed=2), 2))
        assert (await engine.generate([5, 8], Sampling(3, seed=0))).version == 1
        assert not third.done()
        oldest.cancel()
        await third
        assert (await engine.generate([5, 8], Sampling(3, seed=0))).version == 2
        assert not older.done()
        older.cancel()

    async def test_old_weights_are_let_go_when_nothing_needs_them(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine, judge = await make_embedded(endless, swap="beside", prefix_caching=False), Judge(endless)
        assert isinstance(engine, EmbeddedEngine)
        begun = asyncio.create_task(engine.generate([5, 6], LONG))
        await until(lambda: engine.stats().running == 1)
        await engine.load_weights(judge.perturb(seed=1), 1)
        weights = sum(tensor.nbytes for tensor in judge.model.state_dict().values())
        both = engine.memory()
        begun.cancel()
        await until(lambda: engine.stats().running == 0)
        assert engine.memory() < both - weights / 2  # tied weights are in the state dict twice

    async def test_a_fast_request_on_new_weights_pauses_a_full_one_on_the_old(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine = await make_embedded(endless, max_concurrency=2, swap="beside", preempt=True)
        old, new, given = Judge(endless), Judge(endless), prompts(6, seed=62)
        begun = [asyncio.create_task(engine.generate(p, FULL)) for p in given[:2]]
        await until(lambda: engine.stats().running == 2)
        await engine.load_weights(new.perturb(seed=1), 1)
        for prompt in given[2:]:
            fast = await engine.generate(prompt, Sampling(4, seed=2), Priority.FAST)
            assert close(fast.logprobs, new.logprobs(prompt, fast.token_ids), 1e-4)
        assert not any(task.done() for task in begun)
        assert engine.stats().paused > 0
        for prompt, task in zip(given, begun):
            assert close((await task).logprobs, old.logprobs(prompt, (await task).token_ids), 1e-4)

    @pytest.mark.parametrize("seed", range(4))
    async def test_whatever_comes_in_whatever_order_each_completion_has_one_version(
        self, make_embedded: MakeEngine, endless: Path, seed: int
    ) -> None:
        engine = await make_embedded(endless, max_concurrency=4, swap="beside", preempt=True)
        rng, judges, given = random.Random(seed), [Judge(endless)], prompts(40, seed=seed)
        tasks = []
        for i, prompt in enumerate(given):
            sampling = Sampling(rng.randrange(1, 60), seed=i, draft=Draft(likely=tuple(prompt[:5])))
            tasks.append(
                asyncio.create_task(
                    engine.generate(prompt, sampling, rng.choice([Priority.FAST, Priority.FULL]))
                )
            )
            if rng.random() < 0.1:
                tasks[rng.randrange(i + 1)].cancel()
            if i % 10 == 9:
                judges.append(Judge(endless))
                await engine.load_weights(judges[-1].perturb(seed=i), len(judges) - 1)
        for prompt, task in zip(given, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
            if not isinstance(task, BaseException):
                assert close(task.logprobs, judges[task.version].logprobs(prompt, task.token_ids), 1e-4)
        await until(lambda: engine.stats().running == engine.stats().waiting == 0)


class TestInFlight:
    async def test_what_has_begun_goes_on_with_the_new_weights_and_its_old_keys(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine = await make_embedded(endless, swap="in_flight")
        old, new, given = Judge(endless), Judge(endless), prompts(3, seed=63)
        begun = [asyncio.create_task(engine.generate(p, FULL)) for p in given]
        await until(lambda: engine.stats().generated_tokens > 30)
        await engine.load_weights(new.perturb(seed=1), 4)
        assert not any(task.done() for task in begun)
        for prompt, task in zip(given, begun, strict=True):
            done = await task
            assert done.version == 0  # of its oldest token
            count = agreeing(done.logprobs, old.logprobs(prompt, done.token_ids))
            assert 0 < count < len(done.token_ids)
            assert close(done.logprobs[count:], continued(old, new, prompt, done.token_ids, count), 1e-4)

    async def test_what_begins_later_finds_nothing_of_the_old_weights(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine, judge = await make_embedded(endless, swap="in_flight"), Judge(endless)
        prompt = prompts(1, seed=64, longest=300, shared=200)[0]
        begun = asyncio.create_task(engine.generate(prompt, FULL))
        await until(lambda: engine.stats().generated_tokens > 10)
        await engine.load_weights(judge.perturb(seed=1), 1)
        mixed = await begun  # when it ends, its tokens would go into the prefix cache
        longer = [*prompt, *mixed.token_ids, 1]
        for again in (prompt, longer):
            done = await engine.generate(again, Sampling(8, seed=2))
            assert done.version == 1
            assert close(done.logprobs, judge.logprobs(again, done.token_ids), 1e-4)

    async def test_paused_responses_go_on_with_the_new_weights_too(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine = await make_embedded(endless, max_concurrency=1, swap="in_flight", preempt=True)
        old, new, prompt = Judge(endless), Judge(endless), [5, 6, 7]
        full = asyncio.create_task(engine.generate(prompt, FULL))
        await until(lambda: engine.stats().generated_tokens > 10)
        fast = asyncio.create_task(engine.generate([1, 2], Sampling(300, seed=1), Priority.FAST))
        await until(lambda: engine.stats().paused == 1)
        await engine.load_weights(new.perturb(seed=1), 1)
        await fast
        done = await full
        count = agreeing(done.logprobs, old.logprobs(prompt, done.token_ids))
        assert close(done.logprobs[count:], continued(old, new, prompt, done.token_ids, count), 1e-4)

    async def test_weights_that_give_no_numbers_leave_nothing_behind(
        self, make_embedded: MakeEngine, endless: Path
    ) -> None:
        engine, judge = await make_embedded(endless, swap="in_flight"), Judge(endless)
        good = judge.model.state_dict()
        kept = asyncio.create_task(engine.generate([5, 6], LONG))
        await until(lambda: engine.stats().running == 1)
        await engine.load_weights({name: tensor * float("nan") for name, tensor in good.items()}, 1)
        await engine.load_weights(good, 2)
        done = await engine.generate([1, 2], Sampling(4, seed=0))
        assert close(done.logprobs, judge.logprobs([1, 2], done.token_ids), 1e-4)
        kept.cancel()


def test_vllm_refuses_two_sets_of_weights() -> None:
    with pytest.raises(ConfigError, match=r'beside.*vLLM holds one; choose "drain" or "in_flight"'):
        resolve("pocket", ["engine.kind=vllm", "engine.swap=beside"])
    assert EngineSection().swap == "drain"
