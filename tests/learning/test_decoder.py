"""The learner's own modules and optimiser, beside those they stand in for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import AutoModelForCausalLM

from actfirst.errors import CheckpointError
from actfirst.learning.adamw import AdamW
from actfirst.learning.decoder import open_decoder
from tests.support.tiny_models import make_tiny_checkpoint


@pytest.mark.parametrize("architecture", ["qwen3", "qwen2", "llama"])
def test_parameters_have_the_names_the_order_and_the_values_of_transformers(
    tmp_path: Path, architecture: str
) -> None:
    make_tiny_checkpoint(tmp_path, architecture=architecture)
    ours = open_decoder(tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
        assert mine.requires_grad
    position = torch.tensor([[0, 1, 2, 1000]])
    for mine, other in zip(
        ours.model.rotary_emb(torch.ones(1), position),
        theirs.model.rotary_emb(torch.ones(1), position),
        strict=True,
    ):
        assert torch.equal(mine, other)


def test_a_missing_or_misshapen_tensor_is_named(tmp_path: Path) -> None:
    make_tiny_checkpoint(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    save_file({**weights, name: weights[name][:1].clone()}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=rf"{name} is \(1, "):
        open_decoder(tmp_path)
    del weights[name]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        open_decoder(tmp_path)


def test_steps_are_those_of_torch() -> None:
    torch.manual_seed(0)
    start = [torch.randn(5, 3), torch.randn(7), torch.randn(2)]
    mine = [torch.nn.Parameter(tensor.clone()) for tensor in start]
    other = [torch.nn.Parameter(tensor.clone()) for tensor in start]
    ours = AdamW(mine, 1e-2, (0.9, 0.95), 0.1)
    theirs = torch.optim.AdamW(other, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    for step in range(4):
        ours.rate = theirs.param_groups[0]["lr"] = 1e-2 / (step + 1)
        for parameters, optimiser in ((mine, ours), (other, theirs)):
            loss = sum(functional.gelu(p * (step + 1)).sum() for p in parameters[: 2 + step % 2])
            assert isinstance(loss, torch.Tensor)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(mine, other, strict=True))
    assert all(p.grad is None for p in mine)
    for a, b in zip(mine, other, strict=True):
        assert all(torch.equal(ours.state[a][name], value) for name, value in theirs.state[b].items())
