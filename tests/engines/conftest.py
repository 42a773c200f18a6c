"""Checkpoints and judges that the engine tests share, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.engines.contract import Judge
from tests.support.tiny_models import make_tiny_checkpoint

torch.set_num_threads(1)


@pytest.fixture(scope="session", params=["qwen3", "llama"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp(request.param), architecture=request.param)


@pytest.fixture(scope="session")
def judge(checkpoint: Path) -> Judge:
    return Judge(checkpoint)
