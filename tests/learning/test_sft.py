"""Supervised fine-tuning in the learner: what counts in the loss, the learning rate, the order, exact continuation."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
import torch

from actfirst.config.teacher_sections import SftSection
from actfirst.learning.checkpoint import latest_valid, save
from actfirst.learning.sft import Example, as_samples, batch_at, digest, rate_at
from actfirst.learning.sharded import ShardedLearner
from actfirst.learning.update import Learner
from tests.learning.making import VOCABULARY, learning, plain_model
from tests.learning.ranks import on_ranks

SETTINGS = learning(learning_rate=1e-3, token_budget=90)


def examples(count: int, seed: int = 0) -> list[Example]:
    """Prompts of uneven lengths, some with a shared beginning; responses of one to six tokens."""
    rng = Random(seed)
    opening = [rng.randrange(VOCABULARY) for _ in range(8)]

    def ids(least: int, most: int) -> list[int]:
        return [rng.randrange(VOCABULARY) for _ in range(rng.randint(least, most))]

    return [Example((*opening[: rng.choice((0, 8))], *ids(2, 25)), ids(1, 6)) for _ in range(count)]


def plain_loss(folder: Path, batch: list[Example], prompt_weight: float = 0.0) -> float:
    """Cross-entropy from the full logits of one sequence at a time, averaged over all tokens by their weights."""
    model, total, whole = plain_model(folder), 0.0, 0.0
    for example in batch:
        ids = [*example.prompt_ids, *example.response_ids]
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1].double().log_softmax(-1)
        losses = -logits[range(len(ids) - 1), ids[1:]]
        weights = torch.full_like(losses, prompt_weight)
        weights[len(example.prompt_ids) - 1 :] = 1.0
        total += float((losses.detach() * weights).sum())
        whole += float(weights.sum())
    return total / whole


@pytest.mark.parametrize("prompt_weight", [0.0, 0.3])
def test_the_loss_is_the_mean_over_response_tokens_and_prompts_count_with_their_weight(
    qwen3: Path, prompt_weight: float
) -> None:
    batch = examples(7)
    stats = Learner(qwen3, SETTINGS).fit(as_samples(batch, prompt_weight), 1e-3)
    assert stats.loss == pytest.approx(plain_loss(qwen3, batch, prompt_weight), rel=1e-5)


def test_the_gradient_is_that_of_cross_entropy(qwen3: Path) -> None:
    batch, learner, model = examples(5), Learner(qwen3, learning(grad_clip=1e9)), plain_model(qwen3)
    norm = learner.fit(as_samples(batch), 1e-3).grad_norm
    tokens = sum(len(example.response_ids) for example in batch)
    for example in batch:
        ids = torch.tensor([[*example.prompt_ids, *example.response_ids]])
        labels = ids.clone()
        labels[0, : len(example.prompt_ids)] = -100
        loss = model(input_ids=ids, labels=labels).loss * len(example.response_ids) / tokens
        loss.backward()
    expected = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    assert norm == pytest.approx(float(expected), rel=1e-4)


def test_the_learning_rate_of_a_step_is_the_one_that_is_used(qwen3: Path) -> None:
    still, moved = Learner(qwen3, SETTINGS), Learner(qwen3, SETTINGS)
    before = {name: value.clone() for name, value in still.export().items()}
    still.fit(as_samples(examples(3)), 0.0)
    moved.fit(as_samples(examples(3)), 1e-2)
    assert all(torch.equal(value, before[name]) for name, value in still.export().items())
    assert not all(torch.equal(value, before[name]) for name, value in moved.export().items())


def test_measuring_gives_the_loss_and_changes_nothing(qwen3: Path) -> None:
    batch, learner, other = as_samples(examples(6)), Learner(qwen3, SETTINGS), Learner(qwen3, SETTINGS)
    measured = learner.measure(batch)
    assert measured == pytest.approx(learner.fit(batch, 1e-3).loss, rel=1e-6)
    other.fit(batch, 1e-3)
    assert learner.version == 1
    assert all(torch.equal(value, other.export()[name]) for name, value in learner.export().items())


def test_the_rate_rises_then_falls_by_a_cosine_or_stays() -> None:
    falling = SftSection(steps=110, learning_rate=1.0, warmup=10, final_rate=0.2)
    assert [rate_at(step, falling) for step in (0, 9, 10)] == [0.1, 1.0, 1.0]
    assert rate_at(60, falling) == pytest.approx(0.6)  # half-way
    assert rate_at(110, falling) == pytest.approx(0.2)
    staying = SftSection(steps=110, learning_rate=1.0, warmup=0, schedule="constant")
    assert {rate_at(step, staying) for step in range(110)} == {1.0}


def test_every_epoch_shows_every_example_once_in_an_order_of_its_own() -> None:
    data = [Example((1, number), (2,)) for number in range(10)]
    shown = [example.prompt_ids[1] for step in range(5) for example in batch_at(step, data, 4, seed=3)]
    first, second = shown[:10], shown[10:]
    assert Counter(first) == Counter(second) == Counter(range(10))
    assert first != second
    assert [e.prompt_ids[1] for e in batch_at(0, data, 4, seed=4)] != shown[:4]


def test_together_means_that_the_turns_of_a_trajectory_follow_each_other() -> None:
    data = [Example((1, number), (2,), name=f"walk {number // 3}") for number in range(12)]
    shown = [e.prompt_ids[1] for step in range(6) for e in batch_at(step, data, 4, seed=3, together=True)]
    first, second = shown[:12], shown[12:]
    assert Counter(first) == Counter(second) == Counter(range(12))
    assert first != second
    walks = [shown[place : place + 3] for place in range(0, 24, 3)]
    assert all(walk == [walk[0], walk[0] + 1, walk[0] + 2] and walk[0] % 3 == 0 for walk in walks)


def test_a_run_that_is_stopped_and_continued_ends_bit_for_bit_as_one_that_is_not(
    qwen3: Path, tmp_path: Path
) -> None:
    data, plan = examples(9), SftSection(steps=6, learning_rate=1e-2, warmup=2)

    def steps(learner: Learner, until: int) -> Learner:
        for step in range(learner.version, until):
            learner.fit(as_samples(batch_at(step, data, 4, 0)), rate_at(step, plan))
        return learner

    whole = steps(Learner(qwen3, SETTINGS), 6)
    save(tmp_path, steps(Learner(qwen3, SETTINGS), 3), (), {})
    stored, continued = latest_valid(tmp_path).checkpoint, Learner(qwen3, SETTINGS)
    assert stored is not None
    continued.restore(stored.learner)
    steps(continued, 6)
    for ours, theirs in ((whole.export(), continued.export()), (whole.moments(), continued.moments())):
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_other_data_has_another_digest() -> None:
    assert digest([Example((1, 2), (3,))]) != digest([Example((1,), (2, 3))])


Steps = tuple[list[float], float]


def three_steps(learner: Learner) -> Steps:
    data = examples(11)
    losses = [learner.fit(as_samples(batch_at(step, data, 6, 0)), 1e-3).loss for step in range(2)]
    measured = learner.measure(as_samples(data))
    return [*losses, learner.fit(as_samples(batch_at(2, data, 6, 0)), 1e-3).loss], measured


def on_this_rank(folder: Path) -> Steps:
    return three_steps(ShardedLearner(folder, SETTINGS))


@pytest.mark.slow
def test_two_ranks_fit_and_measure_as_one_process_does(qwen3: Path) -> None:
    losses, measured = three_steps(Learner(qwen3, SETTINGS))
    for theirs, also in on_ranks(2, on_this_rank, qwen3):
        assert theirs == pytest.approx(losses, rel=1e-5)
        assert also == pytest.approx(measured, rel=1e-5)
