"""The own forward pass computes what transformers computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, BloomConfig

from actfirst.errors import CheckpointError
from actfirst.learning.forward import general_states, logprobs, supervised_states
from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import lay_out
from actfirst.learning.update import Learner
from actfirst.models.general import open_general
from actfirst.models.shapes import hand_written
from actfirst.records import TurnSample
from tests.learning.making import learning, make_episodes, make_samples, plain_logprobs, plain_model
from tests.support.tiny_models import make_tiny_checkpoint

BATCHES = pytest.mark.parametrize("samples", [make_samples(7), make_episodes(2, 5)], ids=["mixed", "trees"])


@BATCHES
def test_logprobs_and_gradients_are_those_of_a_plain_full_logits_forward(
    checkpoint: Path, samples: list[TurnSample]
) -> None:
    """Each sequence computed alone and whole; in a tree of prefixes every token is computed once."""
    _compare(checkpoint, samples, general=False)


def _compare(folder: Path, samples: list[TurnSample], *, general: bool) -> None:
    model = plain_model(folder)
    layout = lay_out(samples, len(samples), LossConfig())
    trained = open_general(folder, torch.float32) if general else model
    states = general_states(trained, layout) if general else supervised_states(trained, layout)
    ours = logprobs(trained, states, layout.target_N)
    torch.manual_seed(0)
    factors = torch.rand(len(ours))
    (factors * ours).sum().backward()
    gradients = {name: p.grad.clone() for name, p in trained.named_parameters()}
    model.zero_grad()

    kept = [plain_logprobs(model, s)[torch.tensor(s.mask, dtype=torch.bool)] for s in samples]
    theirs = torch.cat(kept)
    assert torch.allclose(ours.double(), theirs, atol=1e-5)
    (factors * theirs).sum().backward()
    for name, parameter in model.named_parameters():
        scale = parameter.grad.abs().max()
        assert torch.allclose(gradients[name], parameter.grad, atol=float(1e-4 * scale)), name


@pytest.mark.parametrize(
    "architecture", ["gemma3", "gemma2", "olmo2", "mistral", "phi", "smollm3", "qwen3_moe"]
)
@BATCHES
def test_so_are_those_of_the_general_pass(architecture: str, samples: list[TurnSample], tmp_path: Path) -> None:
    _compare(make_tiny_checkpoint(tmp_path, architecture=architecture), samples, general=True)


def test_both_passes_agree_where_there_are_two(checkpoint: Path) -> None:
    _compare(checkpoint, make_episodes(2, 5), general=True)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"model_type": "gpt2"}, False),
        ({"attention_bias": True}, False),
        ({"model_type": "qwen2", "attention_bias": True}, True),
        ({"model_type": "qwen2", "mlp_bias": True}, False),
        ({"rope_parameters": {"rope_type": "yarn"}}, False),
        ({"use_sliding_window": True}, False),
        ({"layer_types": ["full_attention", "sliding_attention"]}, False),
        ({"hidden_act": "gelu"}, False),
    ],
)
def test_the_hand_written_pass_is_taken_where_it_is_exact_and_only_there(
    change: dict[str, object], expected: bool
) -> None:
    assert hand_written({"model_type": "llama", **change}) is expected


def test_a_model_that_the_general_pass_would_compute_wrongly_is_refused(tmp_path: Path) -> None:
    config = BloomConfig(
        vocab_size=400, hidden_size=32, n_layer=2, n_head=2
    )  # position biases in its attention
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="'bloom' model cannot be run here"):
        open_general(tmp_path, torch.float32)


def test_activations_computed_again_give_the_same_update(tmp_path: Path) -> None:
    folder, samples = make_tiny_checkpoint(tmp_path, architecture="gemma3"), make_samples(5)
    updated = []
    for again in (False, True):
        learner = Learner(folder, learning(activation_checkpointing=again))
        learner.update(samples)
        updated.append(learner.export())
    for name, tensor in updated[0].items():
        assert torch.allclose(tensor, updated[1][name], atol=1e-7), name
