"""Why vLLM's speculative decoding by prompt look-up is not offered: on a CPU it does not keep the distribution.

Drafts must be lossless. vLLM 0.32's CPU build draws tokens that the model all but excludes, at any
temperature above 0. The day this test fails, look-up can become an option of `engine.vllm`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from actfirst.models.folder import resolve_model

pytest.importorskip("vllm", reason="vLLM is not installed here", exc_type=ImportError)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

IMPROBABLE = -12.0
"""A vocabulary of 741 has at most 741 e^-12 = 0.5 % of its mass in tokens below this log-prob."""

CHILD = """
import json, sys
from vllm import LLM, SamplingParams

folder, look_up = sys.argv[1], sys.argv[2] == "look up"
drafts = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
llm = LLM(
    folder, dtype="float32", enforce_eager=True, max_model_len=512, kv_cache_memory_bytes=2**28,
    skip_tokenizer_init=True, enable_chunked_prefill=False, max_num_batched_tokens=2048,
    logprobs_mode="raw_logprobs", speculative_config=drafts if look_up else None,
)
prompt = {"prompt_token_ids": [5 + place % 20 for place in range(60)]}
params = SamplingParams(max_tokens=24, temperature=1.0, ignore_eos=True, logprobs=0, detokenize=False)
outputs = llm.generate([prompt] * 32, params, use_tqdm=False)
found = [
    entry[token].logprob
    for output in outputs
    for token, entry in zip(output.outputs[0].token_ids, output.outputs[0].logprobs)
]
print(json.dumps(found))
"""


def improbable_share(folder: Path, how: str) -> float:
    """The share of drawn tokens that the model gives next to no probability."""
    command = [sys.executable, "-c", CHILD, str(folder), how]
    environment = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "CRITICAL",
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    logprobs = json.loads(done.stdout.strip().splitlines()[-1])
    return sum(one < IMPROBABLE for one in logprobs) / len(logprobs)


def test_prompt_look_up_draws_what_the_model_excludes() -> None:
    folder = resolve_model("pocket:student", "models.student")
    plain, looked_up = (improbable_share(folder, how) for how in ("plain", "look up"))
    assert plain < 0.01
    assert looked_up > 0.02
