"""Checkpoints and judges that the engine tests share, made once."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch

from actfirst.engines.embedded import EmbeddedEngine
from tests.engines.contract import Judge, MakeEngine, section
from tests.support.tiny_models import make_tiny_checkpoint

torch.set_num_threads(1)


@pytest.fixture(scope="session", params=["qwen3", "qwen2", "llama"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp(request.param), architecture=request.param)


@pytest.fixture(scope="session")
def judge(checkpoint: Path) -> Judge:
    return Judge(checkpoint)


@pytest.fixture(scope="session")
def endless(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model without an end-of-sequence token: what it generates is as long as it may be."""
    return without_end(checkpoint, tmp_path_factory.mktemp("endless") / checkpoint.name)


@pytest.fixture
async def make_embedded() -> AsyncIterator[MakeEngine]:
    """Makes embedded engines, and closes them after the test."""
    engines: list[EmbeddedEngine] = []

    async def make(folder: Path, *, general: bool = False, **options: object) -> EmbeddedEngine:
        engines.append(EmbeddedEngine.from_pretrained(folder, section(**options), general=general))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.close()


def without_end(checkpoint: Path, folder: Path) -> Path:
    """A copy of a checkpoint in `folder` that names no end-of-sequence token."""
    shutil.copytree(checkpoint, folder)
    for name, key in (
        ("config", "eos_token_id"),
        ("generation_config", "eos_token_id"),
        ("tokenizer_config", "eos_token"),
    ):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != key}))
    return folder
