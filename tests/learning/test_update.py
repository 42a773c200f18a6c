"""One optimiser update (paper, appendix "OPD Optimization", Table "Training hyperparameters")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from actfirst.config.sections import LearnerSection
from actfirst.errors import CheckpointError, UpdateError
from actfirst.learning.loss import fetch
from actfirst.learning.packing import lay_out
from actfirst.learning.update import Learner
from actfirst.models.shapes import head_tokens
from actfirst.records import TurnSample
from tests.learning.making import VOCABULARY, learning, make_samples, paper_loss, plain_logprobs, plain_model
from tests.support.tiny_models import make_tiny_checkpoint

OPTIONS = learning()
UNUSED = VOCABULARY + 1  # a token that no sample holds


def gradient(folder: Path, samples: Sequence[TurnSample], options: LearnerSection = OPTIONS) -> torch.Tensor:
    """The unclipped gradient of one update: after the first one AdamW's first moment is (1 - beta_1) g."""
    learner = Learner(folder, options.model_copy(update={"grad_clip": 1e9}))
    learner.update(samples)
    moments = learner.state().optimizer
    names = sorted(name for name in moments if name.startswith("exp_avg."))
    return torch.cat([moments[name].flatten() for name in names]) / 0.1


def on_policy(folder: Path, samples: Sequence[TurnSample]) -> list[TurnSample]:
    """The samples as this very model would have sampled them."""
    model = plain_model(folder)
    with torch.no_grad():
        logprobs = [plain_logprobs(model, sample).tolist() for sample in samples]
    return [replace(s, behaviour_logprobs=tuple(row)) for s, row in zip(samples, logprobs)]


def test_loss_and_statistics_are_the_papers_formulas(checkpoint: Path) -> None:
    samples, model = make_samples(9, weight=0.7), plain_model(checkpoint)
    with torch.no_grad():
        expected = paper_loss(samples, [plain_logprobs(model, s).tolist() for s in samples])
    stats = Learner(checkpoint, OPTIONS).update(samples)
    assert stats.loss == pytest.approx(expected, rel=1e-5)
    supervised = [advantage for s in samples for kept, advantage in zip(s.mask, s.advantages) if kept]
    assert stats.advantage == pytest.approx(sum(supervised) / len(supervised), rel=1e-5)
    assert stats.supervised_tokens == len(supervised)
    assert stats.tokens == sum(len(s.prompt_ids) + len(s.token_ids) for s in samples)
    assert stats.samples == 9
    assert stats.extra["computed_tokens"] < stats.tokens  # shared prefixes are computed once


def test_first_step_is_adamw_on_the_clipped_gradient(qwen3: Path) -> None:
    samples, options = (
        make_samples(4),
        learning(learning_rate=1e-3, grad_clip=0.5, weight_decay=0.1),
    )
    learner = Learner(qwen3, options)
    before = {name: value.clone() for name, value in learner.state().weights.items()}
    stats = learner.update(samples)
    full = gradient(qwen3, samples)
    assert stats.grad_norm == pytest.approx(float(full.norm()), rel=1e-4)
    assert stats.grad_norm > 0.5  # otherwise nothing was clipped here
    state = learner.state()
    name = "model.layers.1.mlp.down_proj.weight"
    used = state.optimizer[f"exp_avg.{name}"] / 0.1
    # At step 1 the bias-corrected moments are g and g^2: w <- w (1 - lr wd) - lr g / (|g| + 1e-8).
    expected = before[name] * (1 - 1e-3 * 0.1) - 1e-3 * used / (used.abs() + 1e-8)
    assert torch.allclose(state.weights[name], expected, atol=1e-6)
    moments = [value for key, value in state.optimizer.items() if key.startswith("exp_avg.")]
    assert float(torch.cat([m.flatten() for m in moments]).norm()) / 0.1 == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("budget", [1, 40, 100, 16384])
def test_micro_batching_has_no_effect(checkpoint: Path, budget: int) -> None:
    samples = make_samples(10)
    whole = gradient(checkpoint, samples)
    parts = gradient(checkpoint, samples, learning(token_budget=budget))
    assert float((parts - whole).abs().max()) <= 1e-5 * max(1.0, float(whole.abs().max()))


def test_the_head_in_chunks_has_no_effect(qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = make_samples(6)
    whole = gradient(qwen3, samples)
    monkeypatch.setattr("actfirst.models.shapes.LOGITS_AT_ONCE", 7 * 400)
    assert torch.allclose(gradient(qwen3, samples), whole, atol=1e-5)


def test_the_order_of_samples_has_no_effect(qwen3: Path) -> None:
    samples = make_samples(8)
    assert torch.allclose(gradient(qwen3, samples[::-1]), gradient(qwen3, samples), atol=1e-5)


def test_inserted_tokens_count_in_no_loss_and_no_normaliser(qwen3: Path) -> None:
    """The streams of a mask 0 token have no influence; the token itself stays in the context."""
    samples = make_samples(6)
    assert any(0 in s.mask for s in samples)
    absurd = [
        replace(
            s,
            behaviour_logprobs=tuple(x if m else float("-inf") for x, m in zip(s.behaviour_logprobs, s.mask)),
            advantages=tuple(x if m else float("nan") for x, m in zip(s.advantages, s.mask)),
        )
        for s in samples
    ]
    assert torch.equal(gradient(qwen3, absurd), gradient(qwen3, samples))
    stats = Learner(qwen3, OPTIONS).update(samples)
    assert stats.supervised_tokens == sum(sum(s.mask) for s in samples)


def test_a_response_without_supervised_tokens_still_counts_in_the_batch_size(qwen3: Path) -> None:
    samples = make_samples(4)
    empty = replace(samples[3], mask=(0,) * len(samples[3].mask))
    expected = gradient(qwen3, samples[:3]) * 3 / 4
    assert torch.allclose(gradient(qwen3, [*samples[:3], empty]), expected, atol=1e-6)


def copy_of(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in learner.weights().items()}


def test_without_any_advantage_the_student_does_not_move(qwen3: Path) -> None:
    samples = [replace(s, advantages=(0.0,) * len(s.mask)) for s in on_policy(qwen3, make_samples(6))]
    learner = Learner(qwen3, learning(weight_decay=0.0))
    before = copy_of(learner)
    stats = learner.update(samples)
    assert (stats.loss, stats.advantage, stats.grad_norm) == (0.0, 0.0, 0.0)
    assert all(torch.equal(before[name], value) for name, value in learner.weights().items())


def test_on_policy_samples_have_ratio_one_and_nothing_is_clipped(qwen3: Path) -> None:
    stats = Learner(qwen3, OPTIONS).update(on_policy(qwen3, make_samples(6)))
    assert stats.clip_fraction == 0.0
    assert stats.extra["ratio_min"] == pytest.approx(1.0, abs=1e-4)
    assert stats.extra["ratio_max"] == pytest.approx(1.0, abs=1e-4)


def test_weight_scales_a_response(qwen3: Path) -> None:
    one, two = make_samples(2)
    single = gradient(qwen3, [one, replace(two, weight=0.0)])
    other = gradient(qwen3, [replace(one, weight=0.0), two])
    mixed = gradient(qwen3, [replace(one, weight=2.0), replace(two, weight=0.5)])
    assert torch.allclose(mixed, 2.0 * single + 0.5 * other, atol=1e-5)


def test_updates_move_the_student_towards_what_has_an_advantage(qwen3: Path) -> None:
    samples = [replace(s, advantages=(1.0,) * len(s.mask)) for s in on_policy(qwen3, make_samples(6))]
    learner = Learner(qwen3, learning(learning_rate=1e-4))
    learner.update(samples)
    assert learner.update(samples).extra["ratio_mean"] > 1.0


def test_bfloat16_is_close_to_float32_and_keeps_float32_weights(checkpoint: Path) -> None:
    samples = on_policy(checkpoint, make_samples(6))
    learner = Learner(checkpoint, learning(precision="bfloat16"))
    stats = learner.update(samples)
    assert stats.loss == pytest.approx(Learner(checkpoint, OPTIONS).update(samples).loss, abs=0.1)
    assert all(value.dtype == torch.float32 for value in learner.weights().values())
    exact = gradient(checkpoint, samples)
    rough = gradient(checkpoint, samples, learning(precision="bfloat16"))
    assert float(torch.cosine_similarity(exact, rough, dim=0)) > 0.98


def test_version_counts_updates_and_weights_have_hugging_face_names(checkpoint: Path) -> None:
    learner = Learner(checkpoint, OPTIONS)
    assert learner.version == 0
    learner.update(make_samples(2))
    assert learner.version == 1
    assert set(learner.weights()) == set(plain_model(checkpoint).state_dict())


def test_weights_change_with_the_next_update(qwen3: Path) -> None:
    learner = Learner(qwen3, learning(learning_rate=1e-2))
    views, copy = learner.weights(), copy_of(learner)
    learner.update(make_samples(2))
    assert torch.equal(views["model.norm.weight"], learner.weights()["model.norm.weight"])
    assert not torch.equal(copy["model.norm.weight"], learner.weights()["model.norm.weight"])


def test_the_thread_count_holds_during_an_update_only(qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    learner = Learner(qwen3, learning(threads=3))
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    learner.update(make_samples(1))
    assert calls == [3, 7]


def broken(sample: TurnSample, fault: str) -> TurnSample:
    match fault:
        case "advantage":
            return replace(sample, advantages=(float("-inf"), *sample.advantages[1:]))
        case "behaviour":
            return replace(sample, behaviour_logprobs=(float("nan"), *sample.behaviour_logprobs[1:]))
        case "differ in length":
            return replace(sample, mask=sample.mask[1:])
        case "vocabulary":
            return replace(sample, token_ids=(10_000, *sample.token_ids[1:]))
        case "prompt is empty":
            return replace(sample, prompt_ids=())
        case "mask holds":
            return replace(sample, mask=(2, *sample.mask[1:]))
        case _:
            return replace(sample, weight=float("inf"))


@pytest.mark.parametrize(
    "fault",
    ["advantage", "behaviour", "differ in length", "vocabulary", "prompt is empty", "mask holds", "weight"],
)
def test_an_unusable_sample_refuses_the_update_and_is_named(qwen3: Path, fault: str) -> None:
    learner, samples = Learner(qwen3, OPTIONS), make_samples(3)
    before = copy_of(learner)
    with pytest.raises(UpdateError, match=f"1 of 3 samples.*sample-1: .*{fault}"):
        learner.update([samples[0], broken(samples[1], fault), samples[2]])
    assert (learner.version, learner.state().optimizer) == (0, {})
    assert all(torch.equal(before[name], value) for name, value in learner.weights().items())


def test_an_empty_batch_is_refused(qwen3: Path) -> None:
    with pytest.raises(UpdateError, match="at least one sample"):
        Learner(qwen3, OPTIONS).update([])


def test_a_gradient_that_is_not_finite_refuses_the_update_and_names_the_samples(qwen3: Path) -> None:
    learner = Learner(qwen3, OPTIONS)
    learner.update(make_samples(3))
    state = learner.state()
    kept = {name: value.clone() for name, value in state.optimizer.items()}
    only = make_samples(1)[0]
    poisoned = replace(only, id="the-poisoned", prompt_ids=(UNUSED,))
    state.weights["model.embed_tokens.weight"][UNUSED] = float("nan")
    # That row also is a logit of every sample here (tied embeddings), so every sample is named.
    with pytest.raises(UpdateError, match=r"update 2 was not made.*samples: the-poisoned, sample-0"):
        learner.update([poisoned, only])
    assert learner.version == 1
    assert all(torch.equal(kept[name], value) for name, value in learner.state().optimizer.items())


def test_only_the_sample_at_fault_is_named(llama: Path) -> None:
    learner, samples = Learner(llama, OPTIONS), make_samples(3)
    learner.state().weights["model.embed_tokens.weight"][UNUSED] = float("nan")
    poisoned = replace(samples[1], prompt_ids=(UNUSED,))
    with pytest.raises(UpdateError, match=r"samples: sample-1\."):
        learner.update([samples[0], poisoned, samples[2]])
    learner.update([samples[0], samples[2]])  # the others still train
    assert learner.version == 1


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        Learner(tmp_path, OPTIONS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b'{"model_type": "qwen3"}'),
        ("config.json", b'{"model_type": "nothing"}'),
        ("model.safetensors", None),
    ],
)
def test_a_broken_checkpoint_is_refused_by_name(name: str, content: bytes | None, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "model")
    path = folder / name
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    with pytest.raises(CheckpointError, match=str(folder)):
        Learner(folder, OPTIONS)


class Reads(TorchDispatchMode):
    """Counts where Python waits for a value of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("chunk", [1, 1000])
def test_no_chunk_of_the_head_waits_for_its_statistics(
    qwen3: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("actfirst.learning.update.head_tokens", lambda vocabulary, gpu: chunk)
    learner = Learner(qwen3, learning())
    layout = lay_out(make_samples(4), 4, learner._loss)
    states = learner._states(layout)  # before: attention's bias and this way of counting do not go together
    monkeypatch.setattr(learner, "_states", lambda layout: states)
    with Reads() as reads:
        table = learner._backward(layout)
    assert len(table) == -(-len(layout.target_N) // chunk)
    assert reads.count == 0
    assert fetch([table]).tokens == len(layout.target_N)


def test_on_a_gpu_the_head_computes_at_least_2048_tokens_at_a_time() -> None:
    assert head_tokens(151_936, gpu=True) == 2048
    assert head_tokens(151_936, gpu=False) == 220
    assert head_tokens(400, gpu=True) == head_tokens(400, gpu=False) == 2**25 // 400
