"""Real Qwen2.5 weights in both engines and in the learner, against transformers in float32.

The folder comes from the environment variable ACTFIRST_QWEN2; without it these tests are skipped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from actfirst.config.engine_sections import VllmSection
from actfirst.engines.base import Sampling
from actfirst.learning.forward import logprobs, supervised_states
from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import lay_out
from actfirst.records import TurnSample
from tests.engines.contract import Judge, MakeEngine, close, section

FOLDER = os.environ.get("ACTFIRST_QWEN2", "")
TOLERANCE = 1e-3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="ACTFIRST_QWEN2 names no folder with Qwen2.5 weights"),
]


async def test_log_probs_of_engine_and_learner_are_those_of_transformers(make_embedded: MakeEngine) -> None:
    judge = Judge(Path(FOLDER))
    engine = await make_embedded(Path(FOLDER), threads=2)
    given = _prompts(judge)
    completions = await asyncio.gather(
        *(engine.generate(prompt, Sampling(max_tokens=12, seed=i)) for i, prompt in enumerate(given))
    )
    samples, expected = [], []
    for prompt, done in zip(given, completions, strict=True):
        expected.append(judge.logprobs(prompt, done.token_ids))
        assert close(done.logprobs, expected[-1], TOLERANCE)
        assert close(await engine.score(prompt, done.token_ids), expected[-1], TOLERANCE)
        samples.append(_sample(prompt, done.token_ids, done.logprobs))
    layout = lay_out(samples, len(samples), LossConfig())
    with torch.no_grad():
        learnt = logprobs(judge.model, supervised_states(judge.model, layout), layout.target_N).tolist()
    assert close(learnt, [value for values in expected for value in values], TOLERANCE)
    worst = _worst([done.logprobs for done in completions], expected)
    flat = [value for values in expected for value in values]
    print(f"engine: {worst:.2g}, learner: {_worst([learnt], [flat]):.2g}")


async def test_log_probs_in_vllm_are_those_of_transformers_and_of_the_embedded_engine(
    make_embedded: MakeEngine,
) -> None:
    """vLLM is closed before the embedded engine opens: each holds the weights in float32."""
    pytest.importorskip("vllm", reason="vLLM is not installed here", exc_type=ImportError)
    from actfirst.engines.vllm import VllmEngine

    judge = Judge(Path(FOLDER))
    given = _prompts(judge)
    options = VllmSection(enforce_eager=True, kv_cache_gib=0.1, max_model_len=256)
    engine = VllmEngine(Path(FOLDER), section(vllm=options))
    try:
        completions = await asyncio.gather(
            *(engine.generate(prompt, Sampling(max_tokens=12, seed=i)) for i, prompt in enumerate(given))
        )
        scores = [await engine.score(p, done.token_ids) for p, done in zip(given, completions, strict=True)]
    finally:
        await engine.close()
    expected = [judge.logprobs(p, done.token_ids) for p, done in zip(given, completions, strict=True)]
    embedded = await make_embedded(Path(FOLDER), threads=2)
    ours = [await embedded.score(p, done.token_ids) for p, done in zip(given, completions, strict=True)]
    for done, scored, true, own in zip(completions, scores, expected, ours, strict=True):
        assert close(done.logprobs, true, TOLERANCE)
        assert close(scored, true, TOLERANCE)
        assert close(own, done.logprobs, TOLERANCE)
    drawn = [done.logprobs for done in completions]
    print(
        f"vLLM against transformers: {_worst(drawn, expected):.2g}, the embedded engine: {_worst(drawn, ours):.2g}"
    )


def _worst(these: Sequence[Sequence[float]], those: Sequence[Sequence[float]]) -> float:
    return max(
        abs(a - b) for one, other in zip(these, those, strict=True) for a, b in zip(one, other, strict=True)
    )


def _prompts(judge: Judge) -> list[list[int]]:
    questions = ("Write a function that adds two numbers.", "Name three colours.", "Was ist eine Primzahl?")
    return [
        judge.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        for text in questions
    ]


def _sample(prompt: list[int], tokens: tuple[int, ...], behaviour: tuple[float, ...]) -> TurnSample:
    return TurnSample(
        id="sample",
        episode_id="episode",
        task_id="task",
        turn=1,
        prompt_ids=tuple(prompt),
        token_ids=tokens,
        mask=(1,) * len(tokens),
        behaviour_logprobs=behaviour,
        advantages=(0.0,) * len(tokens),
        version=0,
    )
