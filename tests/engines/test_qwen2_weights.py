"""Real Qwen2.5 weights in the embedded engine and in the learner, against transformers in float32.

The folder comes from the environment variable ACTFIRST_QWEN2; without it these tests are skipped.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import torch

from actfirst.engines.base import Sampling
from actfirst.learning.forward import logprobs, supervised_states
from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import lay_out
from actfirst.records import TurnSample
from tests.engines.contract import Judge, MakeEngine, close

FOLDER = os.environ.get("ACTFIRST_QWEN2", "")
TOLERANCE = 1e-3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="ACTFIRST_QWEN2 names no folder with Qwen2.5 weights"),
]


async def test_log_probs_of_engine_and_learner_are_those_of_transformers(make_embedded: MakeEngine) -> None:
    judge = Judge(Path(FOLDER))
    engine = await make_embedded(Path(FOLDER), threads=2)
    questions = ("Write a function that adds two numbers.", "Name three colours.", "Was ist eine Primzahl?")
    given = [
        judge.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        for text in questions
    ]
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
    worst = max(abs(a - b) for d, e in zip(completions, expected, strict=True) for a, b in zip(d.logprobs, e))
    flat = [value for values in expected for value in values]
    print(f"engine: {worst:.2g}, learner: {max(abs(a - b) for a, b in zip(learnt, flat)):.2g}")


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
