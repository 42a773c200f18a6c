"""The embedded engine passes the contract of every engine; what is special to it is tested below."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.engines.embedded.prefix_cache import BLOCK
from actfirst.errors import ActfirstError, CheckpointError, EngineDied, EngineError
from actfirst.models.files import read_files, read_weights
from actfirst.models.shapes import ModelShape
from actfirst.records import StopReason
from tests.engines.contract import EngineContract, Judge, MakeEngine, close, prompts, section, until
from tests.support.tiny_models import make_tiny_checkpoint


@pytest.fixture
def make_engine(make_embedded: MakeEngine) -> MakeEngine:
    return make_embedded


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("qwen"))


class TestContract(EngineContract):
    pass


class TestPrefill:
    @pytest.mark.parametrize("caching", [True, False])
    async def test_prompts_longer_than_the_budget_are_cut_into_chunks(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge, caching: bool
    ) -> None:
        engine = await make_engine(checkpoint, max_prefill_tokens=23, prefix_caching=caching)
        given = prompts(5, seed=20, longest=300)
        for prompt in given:
            done, scores = await asyncio.gather(
                engine.generate(prompt, Sampling(max_tokens=8, seed=1)), engine.score(prompt, given[0])
            )
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)
            assert close(scores, judge.logprobs(prompt, given[0]), 1e-4)

    async def test_the_most_likely_tokens_are_listed_on_request(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        """Asked together with a request that wants none, in chunks; the scores are those without a list."""
        engine = await make_engine(checkpoint, max_prefill_tokens=23)
        assert isinstance(engine, EmbeddedEngine)
        prompt, tokens = prompts(2, seed=21, longest=60)
        listed, plain = await asyncio.gather(
            engine.scores(prompt, tokens, 3), engine.scores(prompt, tokens[:5], 0)
        )
        assert close(listed.logprobs, judge.logprobs(prompt, tokens), 1e-4)
        assert plain.alternatives.token_ids == ()
        assert len(listed.alternatives.token_ids) == 3 * len(tokens)
        best = judge.distributions(prompt, tokens).topk(3).values.flatten().tolist()
        assert close(listed.alternatives.logprobs, best, 1e-4)
        rows = judge.distributions(prompt, tokens).repeat_interleave(3, 0)
        chosen = [row[token].item() for row, token in zip(rows, listed.alternatives.token_ids, strict=True)]
        assert close(chosen, best, 1e-4)

    async def test_a_fast_request_overtakes_a_full_prompt_in_the_middle_of_its_chunks(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint, max_prefill_tokens=8, prefix_caching=False)
        long, short = [7] * 2000, [9, 8, 7]
        full = asyncio.create_task(engine.generate(long, Sampling(max_tokens=4, seed=1)))
        await until(lambda: engine.stats().prefilled_tokens > 0)
        fast = await engine.generate(short, Sampling(max_tokens=6, seed=2), Priority.FAST)
        assert not full.done()
        assert engine.stats().prefilled_tokens < len(long)
        assert close(fast.logprobs, judge.logprobs(short, fast.token_ids), 1e-4)
        assert close((await full).logprobs, judge.logprobs(long, (await full).token_ids), 1e-4)

    async def test_sequences_far_longer_than_one_block_of_queries(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint)
        prompt = prompts(1, seed=21, longest=900, shared=800)[0] * 2
        done = await engine.generate(prompt, Sampling(max_tokens=150, seed=3))
        assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)


class TestPrefixCache:
    async def test_a_repeated_prompt_computes_its_last_block_only(
        self, make_engine: MakeEngine, qwen: Path
    ) -> None:
        engine = await make_engine(qwen)
        prompt = list(range(5 * BLOCK))
        first = await engine.generate(prompt, Sampling(max_tokens=5, seed=0))
        computed = engine.stats().prefilled_tokens
        again = await engine.generate(prompt, Sampling(max_tokens=5, seed=0))
        assert computed == 5 * BLOCK
        assert engine.stats().prefilled_tokens - computed == BLOCK
        assert engine.stats().cached_tokens == 4 * BLOCK
        assert again.token_ids == first.token_ids

    async def test_a_block_is_reused_after_the_same_prefix_only(
        self, make_engine: MakeEngine, qwen: Path
    ) -> None:
        engine, judge = await make_engine(qwen), Judge(qwen)
        a, b, x, y = ([start] * BLOCK for start in (10, 20, 30, 40))
        for prompt in ([*a, *x, 1], [*b, *y, 1], [*b, *x, 1]):
            done = await engine.generate(prompt, Sampling(max_tokens=4, seed=1))
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)
        assert engine.stats().cached_tokens == BLOCK

    async def test_prompts_that_arrive_together_compute_their_shared_part_once(
        self, make_engine: MakeEngine, qwen: Path
    ) -> None:
        engine, judge = await make_engine(qwen), Judge(qwen)
        shared = list(range(100, 100 + 6 * BLOCK))
        fast, full = [*shared, 1, 2, 3], [*shared, 4, 5]
        sampling = Sampling(max_tokens=6, seed=1)
        done = await asyncio.gather(
            engine.generate(full, sampling), engine.generate(fast, sampling, Priority.FAST)
        )
        assert engine.stats().prefilled_tokens == 6 * BLOCK + 3 + 2
        for prompt, completion in zip((full, fast), done, strict=True):
            assert close(completion.logprobs, judge.logprobs(prompt, completion.token_ids), 1e-4)

    async def test_a_response_cut_short_is_continued_from_the_cache(
        self, make_engine: MakeEngine, qwen: Path
    ) -> None:
        engine, judge = await make_engine(qwen), Judge(qwen)
        prompt = list(range(2 * BLOCK))
        thought = await engine.generate(prompt, Sampling(max_tokens=2 * BLOCK + 1, temperature=0.0))
        assert thought.stop_reason is StopReason.LENGTH
        before = engine.stats()
        longer = [*prompt, *thought.token_ids, 11, 12]
        done = await engine.generate(longer, Sampling(max_tokens=4, seed=1))
        assert engine.stats().cached_tokens - before.cached_tokens == 4 * BLOCK
        assert close(done.logprobs, judge.logprobs(longer, done.token_ids), 1e-4)

    @pytest.mark.parametrize("capacity", [0, BLOCK, 4 * BLOCK])
    async def test_a_small_pool_evicts_and_stays_right(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge, capacity: int
    ) -> None:
        engine = await make_engine(checkpoint, prefix_cache_tokens=capacity, max_concurrency=4)
        given = prompts(10, seed=22) * 2
        completions = await asyncio.gather(
            *(engine.generate(p, Sampling(max_tokens=20, seed=1)) for p in given)
        )
        for prompt, done in zip(given, completions, strict=True):
            assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)

    async def test_it_can_be_switched_off(self, make_engine: MakeEngine, qwen: Path) -> None:
        engine = await make_engine(qwen, prefix_caching=False)
        for _ in range(2):
            await engine.generate(list(range(100)), Sampling(max_tokens=2))
        assert engine.stats().cached_tokens == 0
        assert engine.stats().prefilled_tokens == 200


class TestCheckpoints:
    def test_sharded_weights_load(self, qwen: Path, tmp_path: Path) -> None:
        model = AutoModelForCausalLM.from_pretrained(qwen)
        model.save_pretrained(tmp_path, max_shard_size="200KB")
        assert not (tmp_path / "model.safetensors").exists()
        whole, sharded = read_weights(qwen), read_weights(tmp_path)
        assert whole.keys() == sharded.keys()
        assert all(torch.equal(whole[name], sharded[name]) for name in whole)

    async def test_an_engine_from_weights_in_memory_copies_them(self, qwen: Path) -> None:
        weights, judge = load_file(qwen / "model.safetensors"), Judge(qwen)
        engine = EmbeddedEngine(read_files(qwen), weights, section())
        for tensor in weights.values():
            tensor.zero_()
        done = await engine.generate([1, 2, 3], Sampling(max_tokens=5, seed=0))
        assert close(done.logprobs, judge.logprobs([1, 2, 3], done.token_ids), 1e-4)
        await engine.close()

    async def test_bfloat16_stays_near_float32(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        engine = await make_engine(checkpoint, dtype="bfloat16")
        for prompt in prompts(4, seed=23):
            done = await engine.generate(prompt, Sampling(max_tokens=10, seed=1))
            scores = await engine.score(prompt, done.token_ids)
            expected = judge.logprobs(prompt, done.token_ids)
            errors = [abs(a - b) for a, b in zip(done.logprobs, expected, strict=True)]
            assert sum(errors) / len(errors) < 0.15
            assert close(scores, done.logprobs, 0.3)

    def test_every_file_may_name_end_of_sequence_ids(self, qwen: Path, tmp_path: Path) -> None:
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            (tmp_path / name).write_bytes((qwen / name).read_bytes())
        (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 5]}')
        assert read_files(tmp_path).eos_ids == read_files(qwen).eos_ids | {3, 5}

    def test_a_config_of_the_older_form_is_read(self) -> None:
        config = {"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536}
        config |= {
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "rms_norm_eps": 1e-5,
        }
        config |= {
            "rope_theta": 100000,
            "rope_scaling": None,
            "max_position_embeddings": 8192,
            "hidden_act": "silu",
        }
        read = ModelShape.from_dict({**config, "tie_word_embeddings": True})
        assert (read.head_dim, read.group, read.rope_theta) == (64, 3, 100000.0)
        assert read.tied_embeddings
        assert not read.qk_norm

    def test_a_folder_without_a_checkpoint_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match=tmp_path.name):
            EmbeddedEngine.from_pretrained(tmp_path, section())

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("config.json", b'{"model_type": "qwen3"'),
            ("config.json", b'{"model_type": "qwen3"}'),
            ("config.json", b"[]"),
            ("tokenizer.json", b"{"),
            ("model.safetensors", None),
        ],
    )
    def test_a_broken_file_is_named(self, name: str, content: bytes | None, tmp_path: Path) -> None:
        folder = make_tiny_checkpoint(tmp_path / "model")
        path = folder / name
        path.write_bytes(path.read_bytes()[:-100] if content is None else content)
        with pytest.raises(ActfirstError, match=f"{path} "):
            EmbeddedEngine.from_pretrained(folder, section())


class TestThread:
    async def test_an_exception_in_a_step_fails_everything_with_its_cause(
        self, make_engine: MakeEngine, endless: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = await make_engine(endless, max_concurrency=1)
        assert isinstance(engine, EmbeddedEngine)

        def broken(*, admit: bool) -> None:
            raise MemoryError("no more of it")

        pending = [
            asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=2000, seed=0))) for _ in range(3)
        ]
        await until(lambda: engine.stats().running == 1)
        monkeypatch.setattr(engine._versions, "step", broken)
        for task in pending:
            with pytest.raises(EngineDied, match="died of MemoryError: no more of it"):
                await task
        with pytest.raises(EngineDied, match="died of MemoryError"):
            await engine.score([1], [2])
        with pytest.raises(EngineDied, match="died of MemoryError"):
            await engine.load_weights(read_weights(endless), 1)

    async def test_weights_that_cannot_be_installed_fail_whoever_waits_for_them(
        self, make_engine: MakeEngine, endless: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = await make_engine(endless)
        assert isinstance(engine, EmbeddedEngine)

        def broken(weights: object, version: int) -> None:
            raise MemoryError("no more of it")

        monkeypatch.setattr(engine._versions, "install", broken)
        with pytest.raises(EngineDied, match="died of MemoryError: no more of it"):
            await asyncio.wait_for(engine.load_weights(read_weights(endless), 1), 5)
        assert engine.version == 0

    async def test_an_update_that_nobody_waits_for_any_more_is_dropped(
        self, make_engine: MakeEngine, endless: Path
    ) -> None:
        engine = await make_engine(endless)
        running = asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=400, seed=0)))
        await until(lambda: engine.stats().running == 1)
        update = asyncio.create_task(engine.load_weights(read_weights(endless), 9))
        await asyncio.sleep(0)
        update.cancel()
        await running
        assert (await engine.generate([1], Sampling(max_tokens=1))).version == engine.version == 0

    async def test_closing_leaves_no_thread(self, qwen: Path) -> None:
        before = set(threading.enumerate())
        engine = EmbeddedEngine.from_pretrained(qwen, section())
        await engine.generate([1], Sampling(max_tokens=2))
        assert set(threading.enumerate()) > before
        await engine.close()
        await engine.close()
        assert set(threading.enumerate()) == before

    async def test_weights_that_give_no_numbers_fail_the_request_only(
        self, make_engine: MakeEngine, qwen: Path
    ) -> None:
        engine, good = await make_engine(qwen), read_weights(qwen)
        await engine.load_weights({name: tensor * float("nan") for name, tensor in good.items()}, 1)
        with pytest.raises(EngineError, match="not a number"):
            await engine.generate([1, 2], Sampling(max_tokens=4))
        await engine.load_weights(good, 2)
        done = await engine.generate([1, 2], Sampling(max_tokens=4, seed=0))
        assert close(done.logprobs, Judge(qwen).logprobs([1, 2], done.token_ids), 1e-4)

    async def test_cancelling_in_the_middle_of_a_batch_keeps_the_others_right(
        self, make_engine: MakeEngine, checkpoint: Path, judge: Judge
    ) -> None:
        """Slots are moved together when one falls empty: the wrong keys would show at once."""
        engine = await make_engine(checkpoint, max_concurrency=12)
        given = prompts(24, seed=24)
        tasks = [
            asyncio.create_task(engine.generate(p, Sampling(max_tokens=30 + i, seed=i)))
            for i, p in enumerate(given)
        ]
        for i in range(0, 24, 3):
            steps = engine.stats().steps
            await until(lambda: engine.stats().steps > steps + 1)  # noqa: B023 (it is awaited here)
            tasks[i].cancel()
        for i, (prompt, task) in enumerate(zip(given, tasks, strict=True)):
            if i % 3:
                done = await task
                assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)
        assert engine.stats().running == 0
