"""What learning from rewards adds to the learner: KL to an anchor, entropy, token mean, several steps per update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from actfirst.errors import UpdateError
from actfirst.learning.loss import LossConfig, anchor_kl, surrogate_loss, token_mean
from actfirst.learning.samples import load_samples, save_samples
from actfirst.learning.update import Learner
from actfirst.records import TurnSample
from tests.learning.making import learning, make_samples, paper_token_loss, plain_logprobs, plain_model

KL, ENTROPY = 0.3, 0.05
WHOLE = learning(
    kl_weight=KL, entropy_weight=ENTROPY, aggregation="token-mean", learning_rate=1e-3, grad_clip=1e9
)


def anchored(samples: Sequence[TurnSample]) -> list[TurnSample]:
    return [replace(s, anchor_logprobs=tuple(-1.0 - 0.1 * n for n in range(len(s.mask)))) for s in samples]


def plain_loss(model: Any, samples: Sequence[TurnSample]) -> float:
    """The whole objective one token at a time: PPO + KL - entropy, over all supervised tokens alike."""
    terms: list[float] = []
    for sample in samples:
        ids = torch.tensor([sample.prompt_ids + sample.token_ids])
        logits = model(input_ids=ids).logits[0, len(sample.prompt_ids) - 1 : -1].double()
        all_logp = torch.log_softmax(logits, -1)
        for j, token in enumerate(sample.token_ids):
            if sample.mask[j]:
                logp = float(all_logp[j, token])
                log_r = sample.anchor_logprobs[j] - logp
                kl = min(math.exp(log_r) - log_r - 1.0, 10.0)
                entropy = -float((all_logp[j].exp() * all_logp[j]).sum())
                ppo = paper_token_loss(logp, sample.behaviour_logprobs[j], sample.advantages[j])
                terms.append(ppo + KL * kl - ENTROPY * entropy)
    return sum(terms) / len(terms)


class TestAnchor:
    def test_the_estimator_by_hand(self) -> None:
        logp = torch.tensor([-1.0, -2.0, -1.0], dtype=torch.float64)
        anchor = torch.tensor([-1.0, -1.0, -3.0], dtype=torch.float64)
        expected = [0.0, math.e - 2.0, math.exp(-2.0) + 1.0]
        assert anchor_kl(logp, anchor, LossConfig()).tolist() == pytest.approx(expected)

    def test_it_is_zero_with_zero_gradient_where_the_policy_is_the_anchor(self) -> None:
        logp = torch.tensor([-0.5, -3.0], dtype=torch.float64, requires_grad=True)
        kl = anchor_kl(logp, logp.detach(), LossConfig())
        kl.sum().backward()
        assert kl.tolist() == [0.0, 0.0]
        assert logp.grad is not None
        assert logp.grad.tolist() == [0.0, 0.0]

    def test_a_student_that_is_its_own_anchor_reports_no_kl(self, checkpoint: Path) -> None:
        model, samples = plain_model(checkpoint), make_samples(5)
        with torch.no_grad():
            samples = [replace(s, anchor_logprobs=tuple(plain_logprobs(model, s).tolist())) for s in samples]
        stats = Learner(checkpoint, learning(kl_weight=1.0)).update(samples)
        assert stats.extra["anchor_kl"] == pytest.approx(0.0, abs=1e-9)

    def test_gradient_of_the_token_loss_agrees_with_finite_differences(self) -> None:
        torch.manual_seed(0)
        behaviour = -5 * torch.rand(24, dtype=torch.float64)
        advantage = 4 * torch.rand(24, dtype=torch.float64) - 2
        anchor, share = behaviour - 0.3, torch.rand(24, dtype=torch.float64)
        offsets = torch.tensor([-0.5, -0.1, 0.1, 0.5, 2.0, 0.01], dtype=torch.float64).repeat(4)
        config = LossConfig(kl_weight=KL, entropy_weight=ENTROPY)

        def loss(logp: torch.Tensor, entropy: torch.Tensor) -> torch.Tensor:
            return surrogate_loss(logp, behaviour, advantage, share, config, anchor, entropy)[0]

        logp = (behaviour + offsets).requires_grad_()
        entropy = torch.rand(24, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(loss, (logp, entropy))

    def test_a_sample_without_an_anchor_is_named(self, qwen3: Path) -> None:
        with pytest.raises(UpdateError, match=r"sample-1: learner.kl_weight is not 0"):
            Learner(qwen3, learning(kl_weight=0.1)).update([*anchored(make_samples(1)), *make_samples(2)[1:]])

    def test_anchors_survive_the_file(self, tmp_path: Path) -> None:
        samples = [*anchored(make_samples(2)), *make_samples(4)[2:]]
        save_samples(tmp_path / "samples.npz", samples)
        assert load_samples(tmp_path / "samples.npz") == tuple(samples)


class TestWholeObjective:
    def test_its_value_is_the_plain_sum_over_tokens(self, checkpoint: Path) -> None:
        samples = anchored(make_samples(7))
        with torch.no_grad():
            expected = plain_loss(plain_model(checkpoint), samples)
        stats = Learner(checkpoint, WHOLE).update(samples)
        assert stats.loss == pytest.approx(expected, rel=1e-5)
        assert {"anchor_kl", "entropy"} <= stats.extra.keys()

    def test_its_gradient_agrees_with_finite_differences_through_the_model(self, qwen3: Path) -> None:
        """Along the gradient itself, where the slope is its norm."""
        samples = anchored(make_samples(5, seed=3))
        learner = Learner(qwen3, WHOLE)
        before = {name: value.clone() for name, value in learner.state().weights.items()}
        norm = learner.update(samples).grad_norm
        state = learner.state()
        # After one step the first moment is 0.1 times the gradient.
        gradient = {name: 10.0 * state.optimizer[f"exp_avg.{name}"] for name in before}
        width = 2e-5 / norm  # small: the clips have kinks

        def loss_at(sign: int) -> float:
            model = plain_model(qwen3).double()
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(before[name].double() + sign * width * gradient[name].double())
                return plain_loss(model, samples)

        slope = (loss_at(1) - loss_at(-1)) / (2.0 * width * norm)
        assert slope == pytest.approx(norm, rel=2e-2)


class TestAggregation:
    def test_every_token_counts_the_same(self) -> None:
        samples = make_samples(6)
        counts = [sum(s.mask) for s in samples]
        weighted = token_mean(samples)
        per_token = [s.weight / (len(samples) * count) for s, count in zip(weighted, counts)]
        assert per_token == pytest.approx([1.0 / sum(counts)] * 6)


class TestSeveralSteps:
    def test_an_update_of_a_whole_batch_is_as_many_steps_as_separate_updates(self, qwen3: Path) -> None:
        samples = make_samples(8)
        options = {"learning_rate": 1e-3, "batch_size": 3}
        whole = Learner(qwen3, learning(**options, whole_batches=True))
        stats = whole.update(samples)
        parts = Learner(qwen3, learning(**options))
        losses = [parts.update(part).loss for part in (samples[:3], samples[3:6], samples[6:])]
        assert (whole.version, parts.version) == (1, 3)
        assert stats.extra["optimizer_steps"] == 3
        assert stats.samples == 8
        assert stats.loss == pytest.approx(sum(losses) / 3)
        one, other = whole.state().weights, parts.state().weights
        assert all(torch.equal(one[name], other[name]) for name in one)
