"""The memory estimate of `--dry-run`: parameter counts, hand-computed sums, and what autograd really saves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from actfirst.config.load import resolve
from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import lay_out
from actfirst.learning.update import Learner
from actfirst.models.shapes import NAMED, ModelShape, shape_of
from actfirst.terminal.placement import placement_lines
from actfirst.training.footprint import RESIDUAL, SAVED, footprints
from tests.learning.making import learning, make_samples


@pytest.mark.parametrize(
    ("name", "all_parameters", "without_embedding"),
    [
        ("Qwen3-0.6B", 596_049_920, 440_467_456),
        ("Qwen3-1.7B", 1_720_574_976, 1_409_410_048),
        ("Qwen3-4B", 4_022_468_096, 3_633_511_936),
        ("Qwen3-8B", 8_190_735_360, 6_946_075_648),
    ],
)
def test_parameter_counts_of_the_named_models(name: str, all_parameters: int, without_embedding: int) -> None:
    """Embedding: 151,936 x width, twice where the head is a matrix of its own (8B)."""
    shape = NAMED[name]
    embeddings = 151_936 * shape.hidden_size * (1 if shape.tied_embeddings else 2)
    assert shape.parameters == all_parameters
    assert shape.parameters - embeddings == without_embedding


def test_a_shape_is_read_from_a_folder_and_counts_what_torch_counts(tmp_path: Path) -> None:
    model = make_model(tmp_path, layers=3)
    found = shape_of(str(tmp_path))
    assert found is not None
    assert found[1].parameters == sum(parameter.numel() for parameter in model.parameters())


def test_a_name_is_known_by_its_end_and_others_are_not() -> None:
    assert shape_of("Qwen/Qwen3-4B") == ("Qwen3-4B", NAMED["Qwen3-4B"])
    assert shape_of("teachers/webshop-qwen3-8b") == ("Qwen3-8B", NAMED["Qwen3-8B"])
    assert shape_of("teachers/mine") is None


def test_the_estimate_for_a_4b_student_in_the_papers_placement_by_hand() -> None:
    engine, teacher, learner = footprints(resolve("paper/alfworld-4b"))
    p = 4_022_468_096
    assert learner.bytes_of["weights"] == learner.bytes_of["gradients"] == 4 * p / 2
    assert learner.bytes_of["optimizer"] == 8 * p / 2
    # Outer parameters twice in float32; a layer of 100,930,816 twice in bfloat16 and once as a gradient (2 + 4).
    outer, layer = 151_936 * 2560 + 2560, 100_930_816
    assert learner.bytes_of["gathered"] == 8 * outer + 4 * layer + 6 * layer
    # 18 x 2560 + 8 x 9728 + 10.25 x 4096 + 8.125 x 1024 = 174,208 bytes in one layer; 4 x 2560 in each of 36.
    assert learner.bytes_of["activations"] == 16_384 * (174_208 + 36 * 10_240)
    assert engine.bytes_of["weights"] == engine.bytes_of["new weights"] == 2 * p
    assert engine.bytes_of["KV cache"] == pytest.approx(0.7 * 80e9 - 2 * p)
    # 2 (keys and values) x 36 layers x 1024 x 2 bytes = 147,456 bytes a token, 10,752 tokens a sequence.
    assert engine.note == f"{(0.7 * 80e9 - 2 * p) / (147_456 * 10_752):.0f} sequences of 10,752 tokens"
    assert teacher.bytes_of["weights"] == 2 * 8_190_735_360


def test_copies_of_the_learner_cost_memory() -> None:
    """Four ranks that hold two copies need what two ranks need."""
    two, four, copies = (
        footprints(resolve("paper/alfworld-4b", settings))[-1].bytes_of
        for settings in (
            [],
            ["runtime.learners=4"],
            ["runtime.learners=4", "runtime.learner_copies=2"],
        )
    )
    assert copies == two
    assert four["optimizer"] == two["optimizer"] / 2


def test_adapters_leave_gradients_and_moments_small() -> None:
    *_, all_weights = footprints(resolve("paper/alfworld-4b"))
    *_, adapters = footprints(resolve("paper/alfworld-4b", ["learner.adapter_rank=16"]))
    # 16 x 36 x (2 x (2560 + 4096) + 2 x (2560 + 1024) + 3 x (2560 + 9728)) parameters
    assert adapters.bytes_of["gradients"] == 4 * 576 * (13_312 + 7_168 + 36_864) / 2
    assert adapters.total < 0.5 * all_weights.total


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_activations_are_what_autograd_saves(tmp_path: Path, precision: str) -> None:
    """Two models that differ by two layers: the difference is theirs."""
    saved = {
        (layers, again): saved_per_token(tmp_path / f"{layers}-{again}", layers, precision, again)
        for layers in (3, 5)
        for again in (False, True)
    }
    shape = shape_of(str(tmp_path / "3-False"))
    assert shape is not None
    kept = (saved[5, False] - saved[3, False]) / 2
    assert kept == pytest.approx(SAVED[precision].of(shape[1]), rel=0.02)
    recomputed = (saved[5, True] - saved[3, True]) / 2
    assert recomputed == pytest.approx(RESIDUAL * shape[1].hidden_size, rel=0.02)


def test_the_placement_of_the_paper_is_shown_with_memory_for_each_part() -> None:
    placement, heading, *parts = placement_lines(resolve("paper/webshop-1.7b"))
    assert placement.startswith("placement: 4 rollout engines, 2 teacher replicas, 2 learner ranks on 8 GPUs")
    assert "estimated" in heading
    assert [line.split()[0] for line in parts] == ["rollout", "teacher", "learner"]
    assert not any("MORE THAN" in line for line in parts)


def test_what_does_not_fit_a_gpu_says_so() -> None:
    lines = placement_lines(resolve("paper/webshop-4b", ["learner.activation_checkpointing=false"]))
    assert "MORE THAN THE 80 GB OF ITS GPU" in lines[-1]


def make_model(folder: Path, layers: int) -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=400,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    return model


def saved_per_token(folder: Path, layers: int, precision: str, again: bool) -> float:
    make_model(folder, layers)
    learner = Learner(folder, learning(precision=precision, activation_checkpointing=again))
    length = 200
    streams = {
        "mask": (1,) * length,
        "behaviour_logprobs": (-1.0,) * length,
        "advantages": (0.5,) * length,
    }
    sample = replace(make_samples(1)[0], prompt_ids=(1,), token_ids=tuple(range(length)), **streams)  # type: ignore[arg-type]
    layout = lay_out([sample], 1, LossConfig())
    with counted(learner) as sizes, learner._autocast():
        learner._states(layout)
    return sum(sizes.values()) / len(layout.token_U)


@contextmanager
def counted(learner: Learner) -> Iterator[dict[int, int]]:
    """Bytes of what autograd saves, by memory; the weights, and copies of them, are counted elsewhere."""
    sizes: dict[int, int] = {}
    alive: list[torch.Tensor] = []
    shapes = {tuple(parameter.shape) for parameter in learner._model.parameters()}
    shapes |= {shape[::-1] for shape in shapes}

    def save(tensor: torch.Tensor) -> torch.Tensor:
        if tuple(tensor.shape) not in shapes:
            alive.append(tensor)  # so that no memory is used again and counted as the same
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        yield sizes


def test_model_shape_without_normed_heads_is_smaller_by_the_norms() -> None:
    shape = NAMED["Qwen3-0.6B"]
    plain: ModelShape = replace(shape, qk_norm=False)
    assert shape.parameters - plain.parameters == 28 * 2 * 128
