"""The embedded engine over a model's own transformers forward pass: the contract, for architectures without another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actfirst.engines.base import Draft, Sampling
from actfirst.lab.speed.general import measure
from tests.engines.conftest import without_end
from tests.engines.contract import EngineContract, Judge, MakeEngine, close, prompts
from tests.support.tiny_models import make_tiny_checkpoint


# Also what depends on the checkpoint is made anew here: pytest would hand out that of another module.
@pytest.fixture(scope="module", params=["gemma3", "olmo2"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp(request.param), architecture=request.param)


@pytest.fixture(scope="module")
def judge(checkpoint: Path) -> Judge:
    return Judge(checkpoint)


@pytest.fixture(scope="module")
def endless(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_end(checkpoint, tmp_path_factory.mktemp("endless") / checkpoint.name)


@pytest.fixture
def make_engine(make_embedded: MakeEngine) -> MakeEngine:
    return make_embedded


class TestContract(EngineContract):
    pass


@pytest.mark.parametrize("architecture", ["gemma2", "mistral", "phi", "smollm3", "qwen3_moe"])
async def test_log_probs_are_those_of_transformers(
    architecture: str, make_engine: MakeEngine, tmp_path: Path
) -> None:
    """Prompts are longer than the sliding windows, are cut into chunks, and are decoded together and with drafts."""
    folder = make_tiny_checkpoint(tmp_path, architecture=architecture)
    engine, judge = await make_engine(folder, max_prefill_tokens=37), Judge(folder)
    given = prompts(6, seed=3, longest=60)
    draft = Draft((5, 6, 7))
    completions = await asyncio.gather(
        *(engine.generate(p, Sampling(max_tokens=40, seed=i, draft=draft)) for i, p in enumerate(given))
    )
    for prompt, done in zip(given, completions, strict=True):
        assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), 1e-4)
        assert close(await engine.score(prompt, given[0]), judge.logprobs(prompt, given[0]), 1e-4)


async def test_the_same_tokens_as_the_hand_written_pass(make_engine: MakeEngine, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path, architecture="llama")
    engines = [await make_engine(folder), await make_engine(folder, general=True)]
    for prompt in prompts(4, seed=5):
        first, second = [await e.generate(prompt, Sampling(max_tokens=30, seed=1)) for e in engines]
        assert first.token_ids == second.token_ids


def test_the_bench_compares_the_two_passes_on_one_model(tmp_path: Path) -> None:
    folder, told = make_tiny_checkpoint(tmp_path), []
    found = measure(folder, 1, 1, lambda done, of, what: told.append((done, of, what)))
    assert [(one.what, len(one.general), len(one.hand_written)) for one in found] == [
        ("generate", 1, 1),
        ("update", 1, 1),
    ]
    assert told == [(1, 2, "generate"), (2, 2, "generate"), (1, 2, "update"), (2, 2, "update")]
