"""Supervised fine-tuning: what counts in the loss, how examples are grouped, and that runs continue exactly."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from actfirst.errors import CheckpointError, ConfigError
from actfirst.learning.sft import Example, SftSettings, SftStep, fine_tune, micro_batches

VOCABULARY = 40


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def tiny_model(seed: int = 0) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            tie_word_embeddings=True,
        )
    ).eval()


def copying_examples(count: int = 50) -> list[Example]:
    """Prompts of random ids; the response repeats the last two of them."""
    rng = Random(5)
    made = []
    for _ in range(count):
        prompt = tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(3, 9)))
        made.append(Example(prompt, prompt[-2:]))
    return made


def test_a_toy_set_is_learned() -> None:
    model, examples = tiny_model(), copying_examples()
    settings = SftSettings(steps=60, batch_size=25, learning_rate=1e-2, warmup=5, token_budget=128)
    losses = fine_tune(model, examples, settings).losses
    assert losses[0] == pytest.approx(math.log(VOCABULARY), rel=0.1)  # nothing is known at first
    assert losses[-1] < losses[0] / 2
    assert len(losses) == 60


def test_only_response_tokens_count() -> None:
    model = tiny_model()
    example = Example((1, 2, 3, 4), (5, 6))
    logits = model(torch.tensor([[1, 2, 3, 4, 5, 6]])).logits.log_softmax(-1)
    expected = -(logits[0, 3, 5] + logits[0, 4, 6]) / 2
    (loss,) = fine_tune(model, [example], SftSettings(steps=1, batch_size=1)).losses
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)


def test_prompt_tokens_count_with_their_weight() -> None:
    # d loss / d weight at weight w is that of (response + w * prompt) / (2 + 3 w): compare a hand-built gradient.
    example = Example((1, 2, 3, 4), (5, 6))
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    by_hand = tiny_model()
    losses = torch.nn.functional.cross_entropy(by_hand(ids).logits[0, :-1], ids[0, 1:], reduction="none")
    ((losses[3:].sum() + 0.5 * losses[:3].sum()) / (2 + 3 * 0.5)).backward()
    expected = torch.nn.utils.clip_grad_norm_(by_hand.parameters(), 1e9)
    steps: list[SftStep] = []
    settings = SftSettings(steps=1, batch_size=1, prompt_weight=0.5)
    fine_tune(tiny_model(), [example], settings, on_step=steps.append)
    assert steps[0].grad_norm == pytest.approx(float(expected), rel=1e-4)
    assert steps[0].loss == pytest.approx(float(losses[3:].mean()), rel=1e-5)
    assert steps[0].tokens == 5


def test_padding_and_grouping_change_nothing() -> None:
    examples = copying_examples(20)
    norms = []
    for budget in (16, 64, 4096):
        steps: list[SftStep] = []
        settings = SftSettings(steps=1, batch_size=20, token_budget=budget)
        fine_tune(tiny_model(), examples, settings, on_step=steps.append)
        norms.append((steps[0].loss, steps[0].grad_norm))
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    assert norms[0] == pytest.approx(norms[2], rel=1e-4)


def test_micro_batches_keep_to_the_budget_and_lose_nothing() -> None:
    examples = [Example((1,) * n, (2,)) for n in (9, 1, 5, 30, 2, 5)]
    groups = list(micro_batches(examples, 20))
    assert sorted(e.length for group in groups for e in group) == [2, 3, 6, 6, 10, 31]
    padded = [max(e.length for e in group) * len(group) for group in groups]
    assert all(size <= 20 or len(group) == 1 for size, group in zip(padded, groups, strict=True))


def test_a_stopped_run_continues_exactly(tmp_path: Path) -> None:
    examples = copying_examples(30)
    settings = SftSettings(steps=12, batch_size=7, learning_rate=1e-2, warmup=3, save_every=5)
    whole = tiny_model()
    straight = fine_tune(whole, examples, settings)

    class Stopped(Exception):
        pass

    def stop(step: SftStep) -> None:
        if step.step == 7:
            raise Stopped

    with pytest.raises(Stopped):
        fine_tune(tiny_model(), examples, settings, folder=tmp_path, on_step=stop)
    seen: list[int] = []
    resumed = tiny_model(seed=9)  # whatever it holds is replaced by what was saved
    result = fine_tune(
        resumed, examples, settings, folder=tmp_path, on_step=lambda step: seen.append(step.step)
    )
    assert seen == list(range(5, 12))
    assert result.losses == straight.losses
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_a_run_never_continues_another_one(tmp_path: Path) -> None:
    examples = copying_examples(10)
    fine_tune(tiny_model(), examples, SftSettings(steps=1, batch_size=4), folder=tmp_path)
    with pytest.raises(CheckpointError, match="other settings or other data"):
        fine_tune(tiny_model(), examples[1:], SftSettings(steps=1, batch_size=4), folder=tmp_path)


def test_the_learning_rate_warms_up_and_falls() -> None:
    settings = SftSettings(steps=110, learning_rate=1.0, warmup=10, final_rate=0.1)
    assert settings.rate(0) == pytest.approx(0.1)
    assert settings.rate(9) == pytest.approx(1.0)
    assert settings.rate(60) == pytest.approx(0.1 + 0.9 * 0.5)  # half-way down the cosine
    assert settings.rate(110) == pytest.approx(0.1)
    assert SftSettings(steps=9, learning_rate=1.0, warmup=1, schedule="constant").rate(8) == 1.0


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no examples"):
        fine_tune(tiny_model(), [], SftSettings(steps=1))
