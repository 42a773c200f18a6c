"""The own forward pass computes what transformers computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, Qwen3Config

from actfirst.errors import CheckpointError
from actfirst.learning.forward import check_architecture, logprobs, supervised_states
from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import lay_out
from actfirst.records import TurnSample
from tests.learning.making import make_episodes, make_samples, plain_logprobs, plain_model


@pytest.mark.parametrize("samples", [make_samples(7), make_episodes(2, 5)], ids=["mixed", "trees"])
def test_logprobs_and_gradients_are_those_of_a_plain_full_logits_forward(
    checkpoint: Path, samples: list[TurnSample]
) -> None:
    """Each sequence computed alone and whole; in a tree of prefixes every token is computed once."""
    model = plain_model(checkpoint)
    layout = lay_out(samples, len(samples), LossConfig())
    ours = logprobs(model, supervised_states(model, layout), layout.target_N)
    torch.manual_seed(0)
    factors = torch.rand(len(ours))
    (factors * ours).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()

    kept = [plain_logprobs(model, s)[torch.tensor(s.mask, dtype=torch.bool)] for s in samples]
    theirs = torch.cat(kept)
    assert torch.allclose(ours.double(), theirs, atol=1e-5)
    (factors * theirs).sum().backward()
    for name, parameter in model.named_parameters():
        scale = parameter.grad.abs().max()
        assert torch.allclose(gradients[name], parameter.grad, atol=float(1e-4 * scale)), name


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"gpt2.*qwen3, qwen2, llama"):
        check_architecture(GPT2Config())


def test_sliding_attention_is_refused() -> None:
    config = Qwen3Config(
        num_hidden_layers=2, use_sliding_window=True, layer_types=["full_attention", "sliding_attention"]
    )
    with pytest.raises(CheckpointError, match="sliding_attention"):
        check_architecture(config)
