"""Devices are checked against each other and against the machine before anything starts. GPUs are faked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from actfirst.config.load import resolve
from actfirst.errors import ConfigError
from actfirst.models.device import compute_device
from actfirst.training.devices import check_devices
from actfirst.training.local import LocalLearner
from tests.learning.making import learning
from tests.support.tiny_models import make_tiny_checkpoint


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with two GPUs, as far as torch says."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return monkeypatch


def test_auto_is_the_gpu_where_there_is_one(gpus: pytest.MonkeyPatch) -> None:
    assert compute_device("auto", "learner.device") == "cuda"
    assert compute_device("cpu", "learner.device") == "cpu"
    gpus.setattr(torch.cuda, "is_available", lambda: False)
    assert compute_device("auto", "learner.device") == "cpu"
    with pytest.raises(ConfigError, match=r'learner\.device = "cuda": torch finds no GPU'):
        compute_device("cuda", "learner.device")


@pytest.mark.parametrize("asked", ["auto", "cpu"])
def test_the_local_learner_trains_where_its_key_says(
    tmp_path: Path, gpus: pytest.MonkeyPatch, asked: str
) -> None:
    made: list[str] = []
    gpus.setattr("actfirst.training.local.Learner", lambda folder, settings, device: made.append(device))
    LocalLearner(make_tiny_checkpoint(tmp_path / "model"), learning(device=asked), tmp_path)
    assert made == ["cuda" if asked == "auto" else "cpu"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["engine.vllm.tensor_parallel=2"], r"engine\.vllm\.tensor_parallel = 2 needs 2 GPUs.*engine_gpus = 2"),
        (["teacher.vllm.tensor_parallel=4", "runtime.teacher_gpus=2"], r"needs 4 GPUs, and the engine has 2"),
        (["learner.device=cuda", "runtime.learner_gpus=0"], r"set runtime\.learner_gpus = 1"),
        (["engine.device=cpu"], r"would leave its GPUs idle: set runtime\.engine_gpus = 0"),
    ],
)
def test_a_placement_that_cannot_be_is_refused(overrides: list[str], message: str) -> None:
    check_devices(resolve("paper/alfworld-4b"))
    with pytest.raises(ConfigError, match=message):
        check_devices(resolve("paper/alfworld-4b", overrides))


def test_in_one_process_an_engine_may_use_all_gpus_that_are_here(gpus: pytest.MonkeyPatch) -> None:
    two, four = (resolve("pocket", ["engine.kind=vllm", f"engine.vllm.tensor_parallel={n}"]) for n in (2, 4))
    check_devices(two)
    with pytest.raises(ConfigError, match="needs 4 GPUs, and the engine has 2; lower it"):
        check_devices(four)
