"""The contract suite of engines/base.py, for every engine: subclass EngineContract and provide `make_engine`.

The judge is a plain transformers forward pass in float32 over the same checkpoint. Log-probs must agree with it
to TOLERANCE (1e-4, absolute); an engine of another precision overrides `tolerance`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from actfirst.config.engine_sections import EngineSection
from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.errors import EngineError
from actfirst.records import Completion, StopReason

TOLERANCE = 1e-4
MAX_POSITIONS = 2048  # of the tiny checkpoints
LONG = Sampling(max_tokens=MAX_POSITIONS - 10, seed=0)  # takes a second or so on the `endless` checkpoint
MakeEngine = Callable[..., Awaitable[Engine]]


def section(**options: object) -> EngineSection:
    """Settings of an engine in a test."""
    chosen = {"max_concurrency": 32, "threads": 1, "dtype": "float32", "preempt": False, **options}
    return EngineSection(**chosen)  # type: ignore[arg-type]


class Judge:
    """What transformers says of a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager",  # sdpa leaves softcaps out
        ).eval()

    @torch.no_grad()
    def distributions(self, prompt: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """Log-probs [len(tokens), vocabulary] before each of `tokens`."""
        logits = self.model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        return torch.log_softmax(logits.double(), -1)

    def logprobs(
        self, prompt: Sequence[int], tokens: Sequence[int], sampling: Sampling | None = None
    ) -> list[float]:
        """Of `tokens`, under the distribution that `sampling` asks for, worked out one position at a time."""
        rows = self.distributions(prompt, tokens)
        if sampling is not None and sampling.temperature > 0:
            rows = torch.stack([self.processed(row, sampling) for row in rows])
        return [row[token].item() for row, token in zip(rows, tokens, strict=True)]

    @staticmethod
    def processed(logprobs: torch.Tensor, sampling: Sampling) -> torch.Tensor:
        """Temperature, then the top_k likeliest, then the fewest likeliest that reach top_p."""
        probs = torch.softmax(logprobs / sampling.temperature, -1)
        kept = probs.argsort(descending=True).tolist()
        if sampling.top_k:
            kept = kept[: sampling.top_k]
        total, reached, nucleus = probs[kept].sum().item(), 0.0, []
        for token in kept:
            if reached >= sampling.top_p and nucleus:
                break
            nucleus.append(token)
            reached += probs[token].item() / total
        cut = torch.zeros_like(probs)
        cut[nucleus] = probs[nucleus] / probs[nucleus].sum()
        return cut.log()

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        out = self.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt)),
            do_sample=False,
            max_new_tokens=count,
        )
        tokens: list[int] = out[0, len(prompt) :].tolist()
        return tokens

    def perturb(self, seed: int) -> dict[str, torch.Tensor]:
        """Change the judge's own weights for good, and return them as a state dict."""
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.model.parameters():
            parameter.data += 0.1 * parameter.data.std() * torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}


def prompts(count: int, *, seed: int, longest: int = 120, shared: int = 40) -> list[list[int]]:
    """Random prompts of many lengths; they share beginnings, as those of one rollout do."""
    rng = random.Random(seed)
    common = [rng.randrange(380) for _ in range(shared)]
    return [
        common[: rng.randrange(1, shared)]
        + [rng.randrange(380) for _ in range(rng.randrange(1, longest - shared))]
        for _ in range(count)
    ]


def close(actual: Sequence[float], expected: Sequence[float], tolerance: float) -> bool:
    return len(actual) == len(expected) and all(abs(a - b) <= tolerance for a, b in zip(actual, expected))


class EngineContract:
    """Subclasses provide the fixture `make_engine`: `await make_engine(folder, max_concurrency=4)`
    gives an engine of the checkpoint with prefix caching on; the fixture closes it."""

    tolerance = TOLERANCE

    @pytest.mark.parametrize(
        ("temperature", "top_p", "top_k"),
        [(1.0, 1.0, 0), (0.4, 1.0, 0), (1.0, 0.8, 0), (1.0, 1.0, 5), (0.7, 0.9, 20)],
    )
    async def test_logprobs_are_those_of_the_sampled_distribution(
        self,
        make_engine: MakeEngine,
        checkpoint: Path,
        judge: Judge,
        temperature: float,
        top_p: float,
        top_k: int,
    ) -> None:
        engine = await make_engine(checkpoint)
        requests = [
            (p, Sampling(max_tokens=12, temperature=temperature, top_p=top_p, top_k=top_k, seed=i))
            for i, p in enumerate(prompts(6, seed=1))
        ]
        completions = await asyncio.gather(*(engine.generate(p, s) for p, s in requests))
        for (prompt, sampling), done in zip(requests, completions, strict=True):
            expected = judge.logprobs(prompt, done.token_ids, sampling)
            assert close(done.logprobs, expected, self.tolerance)

    async def test_requests_with_different_settings_share_a_batch(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        settings = [
            Sampling(max_tokens=9, seed=0),
            Sampling(max_tokens=5, temperature=0.0),
            Sampling(max_tokens=12, temperature=0.6, top_p=0.5, seed=2),
            Sampling(max_tokens=7, temperature=1.3, seed=3),
            Sampling(max_tokens=8, top_k=1, seed=4),
        ]
        given = prompts(5, seed=2)
        completions = await asyncio.gather(
            *(engine.generate(p, s) for p, s in zip(given, settings, strict=True))
        )
        for prompt, sampling, done in zip(given, settings, completions, strict=True):
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids, sampling), self.tolerance)
        assert completions[4].logprobs == pytest.approx([0.0] * len(completions[4].logprobs))

    async def test_temperature_zero_is_greedy_and_reports_the_unmodified_logprob(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        for prompt in prompts(3, seed=3):
            done = await engine.generate(prompt, Sampling(max_tokens=16, temperature=0.0, top_k=3))
            assert list(done.token_ids) == judge.greedy(prompt, 16)
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), self.tolerance)

    async def test_sampling_follows_the_distribution(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        """Chi-square of 1,500 first tokens over the 8 likeliest; 24.3 is exceeded once in 1,000 (7 degrees)."""
        engine = await make_engine(checkpoint)
        prompt, draws = prompts(1, seed=4, longest=50)[0], 1500
        sampling = Sampling(max_tokens=1, temperature=1.5, top_k=8)
        expected = judge.processed(judge.distributions(prompt, [0])[0], sampling).exp() * draws
        kept = expected.nonzero().flatten().tolist()
        completions = await asyncio.gather(
            *(
                engine.generate(prompt, Sampling(max_tokens=1, temperature=1.5, top_k=8, seed=i))
                for i in range(draws)
            )
        )
        counts = {token: sum(done.token_ids == (token,) for done in completions) for token in kept}
        assert sum(counts.values()) == draws
        assert len(kept) == 8
        assert sum((counts[t] - expected[t].item()) ** 2 / expected[t].item() for t in kept) < 24.3

    async def test_a_seed_reproduces_and_another_differs(
        self, make_engine: MakeEngine, checkpoint: Path
    ) -> None:
        engine = await make_engine(checkpoint)
        prompt = prompts(1, seed=5)[0]
        first, again, other = await asyncio.gather(
            *(engine.generate(prompt, Sampling(max_tokens=20, seed=seed)) for seed in (7, 7, 8))
        )
        assert first.token_ids == again.token_ids
        assert first.token_ids != other.token_ids

    async def test_results_do_not_depend_on_the_batch(self, make_engine: MakeEngine, checkpoint: Path) -> None:
        engine = await make_engine(checkpoint, max_concurrency=16)
        prompt, sampling = prompts(1, seed=6)[0], Sampling(max_tokens=40, seed=11)
        alone = await engine.generate(prompt, sampling)
        others = [
            engine.generate(p, Sampling(max_tokens=3 + i, temperature=0.5 + 0.05 * i, top_p=0.9, seed=i))
            for i, p in enumerate(prompts(30, seed=7))
        ]
        among, *_ = await asyncio.gather(engine.generate(prompt, sampling), *others)
        assert among.token_ids == alone.token_ids
        assert among.stop_reason == alone.stop_reason
        assert close(among.logprobs, alone.logprobs, self.tolerance)

    async def test_a_stop_string_may_span_tokens_and_nothing_follows_it(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        found = 0
        for i, prompt in enumerate(prompts(8, seed=8)):
            free = await engine.generate(prompt, Sampling(max_tokens=40, seed=i))
            stop, length = spanning_stop(judge, free.token_ids)
            if stop is None:
                continue
            found += 1
            stopped = await engine.generate(prompt, Sampling(max_tokens=40, seed=i, stop=("never seen", stop)))
            assert stopped.token_ids == free.token_ids[:length]
            assert stopped.stop_reason is StopReason.STOP_STRING
            assert len(stopped.logprobs) == length
        assert found >= 3

    async def test_eos_is_kept_as_the_last_token(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        eos, prompt = judge.tokenizer.eos_token_id, prompts(1, seed=9)[0]
        completions = await asyncio.gather(
            *(engine.generate(prompt, Sampling(max_tokens=40, seed=i)) for i in range(60))
        )
        ended = [done for done in completions if done.stop_reason is StopReason.EOS]
        assert ended
        assert all(done.token_ids[-1] == eos and done.token_ids.count(eos) == 1 for done in ended)
        for done in completions:
            if done.stop_reason is StopReason.LENGTH:
                assert len(done.token_ids) == 40
                assert eos not in done.token_ids

    async def test_an_ignored_eos_ends_nothing(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        eos, prompt = judge.tokenizer.eos_token_id, prompts(1, seed=9)[0]
        plain, forced = [
            await asyncio.gather(
                *(engine.generate(prompt, Sampling(40, seed=i, ignore_eos=ignored)) for i in range(60))
            )
            for ignored in (False, True)
        ]
        assert any(done.stop_reason is StopReason.EOS for done in plain)
        assert any(eos in done.token_ids for done in forced)
        for short, full in zip(plain, forced, strict=True):
            assert (len(full.token_ids), full.stop_reason) == (40, StopReason.LENGTH)
            assert full.token_ids[: len(short.token_ids)] == short.token_ids

    async def test_the_cap_holds_for_all_requests(self, make_engine: MakeEngine, checkpoint: Path) -> None:
        engine = await make_engine(checkpoint, max_concurrency=3)
        given = prompts(12, seed=10)
        work = asyncio.gather(
            *(
                engine.generate(p, Sampling(max_tokens=30, seed=i), Priority(i % 2))
                for i, p in enumerate(given)
            ),
            *(engine.score(p, p[:20]) for p in given),
        )
        assert await most_running(engine, work) == 3
        await work
        assert engine.stats().running == engine.stats().waiting == 0
        assert engine.stats().requests == 24

    async def test_fast_requests_go_before_waiting_full_ones_and_first_come_first_served_within(
        self, make_engine: MakeEngine, endless: Path
    ) -> None:
        engine = await make_engine(endless, max_concurrency=1)
        order: list[str] = []

        async def request(name: str, priority: Priority) -> None:
            await engine.generate([1, 2, 3], Sampling(max_tokens=3, temperature=0.0), priority)
            order.append(name)

        running = asyncio.create_task(engine.generate([5, 6, 7], LONG))
        await until(lambda: engine.stats().running == 1)
        queued = [
            asyncio.create_task(request("full 1", Priority.FULL)),
            asyncio.create_task(request("full 2", Priority.FULL)),
            asyncio.create_task(request("fast 1", Priority.FAST)),
            asyncio.create_task(request("fast 2", Priority.FAST)),
        ]
        await until(lambda: engine.stats().waiting == 4)
        running.cancel()
        await asyncio.gather(*queued)
        assert order == ["fast 1", "fast 2", "full 1", "full 2"]

    async def test_cancelling_frees_the_place(self, make_engine: MakeEngine, endless: Path) -> None:
        engine = await make_engine(endless, max_concurrency=1)
        running = asyncio.create_task(engine.generate([5, 6, 7], LONG))
        await until(lambda: engine.stats().running == 1)
        waiting = asyncio.create_task(engine.generate([5, 6], LONG))
        await until(lambda: engine.stats().waiting == 1)
        running.cancel()
        waiting.cancel()
        done = await engine.generate([8], Sampling(max_tokens=2, temperature=0.0))
        assert len(done.token_ids) == 2
        assert engine.stats().generated_tokens < 1500
        await until(lambda: engine.stats().running == engine.stats().waiting == 0)
        assert running.cancelled()
        assert waiting.cancelled()

    async def test_scores_are_those_of_a_forward_pass(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint, max_concurrency=4)
        pairs = list(zip(prompts(8, seed=12), prompts(8, seed=13), strict=True))
        pairs.append(([7], [9]))
        scores = await asyncio.gather(*(engine.score(p, t) for p, t in pairs))
        for (prompt, tokens), logprobs in zip(pairs, scores, strict=True):
            assert close(logprobs, judge.logprobs(prompt, tokens), self.tolerance)
        assert await engine.score([1, 2], []) == ()
        assert engine.stats().scored_tokens == sum(len(tokens) for _, tokens in pairs)

    async def test_scoring_gives_back_the_logprobs_of_sampling_while_others_generate(
        self, make_engine: MakeEngine, checkpoint: Path
    ) -> None:
        engine = await make_engine(checkpoint, max_concurrency=8)

        async def both(prompt: list[int], seed: int) -> tuple[Completion, tuple[float, ...]]:
            done = await engine.generate(prompt, Sampling(max_tokens=5 + 3 * seed, seed=seed))
            return done, await engine.score(prompt, done.token_ids)

        for done, scores in await asyncio.gather(*(both(p, i) for i, p in enumerate(prompts(12, seed=14)))):
            assert close(scores, done.logprobs, self.tolerance)

    async def test_new_weights_come_between_requests_and_leave_nothing_stale(
        self, make_engine: MakeEngine, endless: Path
    ) -> None:
        judge, given = Judge(endless), prompts(4, seed=15)
        engine = await make_engine(endless, max_concurrency=2)
        assert engine.version == 0
        for prompt in given:  # their prefixes are cached under the old weights
            await engine.generate(prompt, Sampling(max_tokens=1, seed=0))
        long = Sampling(max_tokens=400, seed=1)
        old = [asyncio.create_task(engine.generate(p, long)) for p in given[:2]]
        await until(lambda: engine.stats().running == 2)
        new = [asyncio.create_task(engine.generate(p, Sampling(max_tokens=10, seed=2))) for p in given]
        await until(lambda: engine.stats().waiting == 4)
        before = Judge(endless)
        await engine.load_weights(judge.perturb(seed=1), 4)
        assert engine.version == 4
        assert all(task.done() for task in old)
        for prompt, task in zip(given, old):
            done = await task
            assert done.version == 0
            assert close(done.logprobs, before.logprobs(prompt, done.token_ids), self.tolerance)
        for prompt, task in zip(given, new, strict=True):
            done = await task
            assert done.version == 4
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), self.tolerance)
            assert not close(done.logprobs, before.logprobs(prompt, done.token_ids), self.tolerance)
            scores = await engine.score(prompt, done.token_ids)
            assert close(scores, done.logprobs, self.tolerance)

    async def test_tied_weights_load_with_and_without_lm_head(
        self, make_engine: MakeEngine, checkpoint: Path
    ) -> None:
        judge, prompt = Judge(checkpoint), prompts(1, seed=16)[0]
        engine = await make_engine(checkpoint)
        names = ["lm_head.weight"] if judge.model.config.tie_word_embeddings else []
        for version, left_out in enumerate(([], names), start=1):
            weights = judge.perturb(seed=version)
            await engine.load_weights({k: v for k, v in weights.items() if k not in left_out}, version)
            done = await engine.generate(prompt, Sampling(max_tokens=8, seed=1))
            assert done.version == version
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), self.tolerance)

    async def test_impossible_requests_are_refused_with_the_numbers(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        with pytest.raises(EngineError, match="empty"):
            await engine.generate([], Sampling(max_tokens=1))
        with pytest.raises(EngineError, match="empty"):
            await engine.score([], [1, 2])
        with pytest.raises(EngineError, match=rf"2000.*49.*{MAX_POSITIONS}"):
            await engine.generate([1] * 2000, Sampling(max_tokens=49))
        with pytest.raises(EngineError, match="vocabulary"):
            await engine.generate([1, 5000], Sampling(max_tokens=1))
        with pytest.raises(EngineError, match="max_tokens"):
            await engine.generate([1], Sampling(max_tokens=0))
        with pytest.raises(EngineError, match="top_p"):
            await engine.generate([1], Sampling(max_tokens=1, top_p=0.0))
        weights = dict(judge.model.state_dict())
        weights["model.norm.weight"] = torch.ones(3)
        with pytest.raises(EngineError, match=r"model\.norm\.weight"):
            await engine.load_weights(weights, 1)
        del weights["model.norm.weight"]
        with pytest.raises(EngineError, match=r"model\.norm\.weight"):
            await engine.load_weights(weights, 1)
        assert len((await engine.generate([1], Sampling(max_tokens=2))).token_ids) in (1, 2)

    async def test_a_closed_engine_fails_what_is_pending_and_refuses_more(
        self, make_engine: MakeEngine, endless: Path
    ) -> None:
        engine = await make_engine(endless)
        pending = asyncio.create_task(engine.generate([5, 6, 7], LONG))
        await until(lambda: engine.stats().running == 1)
        await engine.close()
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await pending
        with pytest.raises(EngineError, match="closed"):
            await engine.generate([1], Sampling(max_tokens=1))


class Watch:
    """Looking at an engine from the event loop, without missing a step and without holding the engine up.

    A loop that never sleeps would hold the interpreter's lock, and an engine in a thread of this process would wait
    milliseconds for every operation. So a look sleeps; meanwhile all steps of a request might pass unseen, which the
    fixture `in_step` prevents.
    """

    EVERY = 0.001  # seconds between two looks
    watching = 0

    @classmethod
    async def until(cls, ended: Callable[[], bool]) -> None:
        """Look until a look says that it is so."""
        cls.watching += 1
        try:
            while not ended():  # noqa: ASYNC110 (an engine offers nothing to wait for)
                await asyncio.sleep(cls.EVERY)
        finally:
            cls.watching -= 1


until = Watch.until


async def most_running(engine: Engine, work: asyncio.Future[Any]) -> int:
    """The most requests seen running until `work` is done."""
    seen = {0}

    def done() -> bool:
        seen.add(engine.stats().running)
        return work.done()

    await until(done)
    return max(seen)


def spanning_stop(judge: Judge, tokens: Sequence[int]) -> tuple[str | None, int]:
    """A string that begins in one token and ends in a later one, and how many tokens are kept up to its end."""
    texts = [judge.tokenizer.decode([token]) for token in tokens]
    for i in range(len(tokens) - 1):
        first, second = texts[i], texts[i + 1]
        if first.isascii() and second.isascii() and first.isprintable() and second.isprintable():
            stop = first[-1:] + second[:1]
            kept = next(n for n in range(1, len(tokens) + 1) if stop in judge.tokenizer.decode(tokens[:n]))
            return stop, kept
    return None, 0
