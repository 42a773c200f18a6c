"""One tiny checkpoint per architecture for all tests of the learner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tiny_models import make_tiny_checkpoint


@pytest.fixture(scope="session")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("learning") / "qwen3")


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("learning") / "llama", architecture="llama")


@pytest.fixture(scope="session")
def qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("learning") / "qwen2", architecture="qwen2")


@pytest.fixture(params=["qwen3", "qwen2", "llama"])
def checkpoint(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path
