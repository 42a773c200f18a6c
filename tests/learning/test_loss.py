"""The token loss and its aggregation (paper, appendix "OPD Optimization")."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.learning.loss import (
    LossConfig,
    LossStats,
    bounded_ratio,
    response_share,
    surrogate_loss,
    token_loss,
)
from tests.learning.making import paper_token_loss

PAPER = LossConfig()
LOGPROB = st.floats(-30.0, 0.0)


def loss_of(ratio: float, advantage: float) -> tuple[float, float]:
    """Token loss and its derivative in the ratio."""
    rho = torch.tensor([ratio], dtype=torch.float64, requires_grad=True)
    loss = token_loss(rho, torch.tensor([advantage], dtype=torch.float64), PAPER)
    loss.sum().backward()
    assert rho.grad is not None
    return loss.item(), rho.grad.item()


def test_the_constants_are_the_papers() -> None:
    assert LossConfig(clip=0.2, dual_clip=3.0, log_ratio_clamp=20.0, eps=1e-8) == PAPER


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        # A >= 0: the ratio earns up to 1.2 and nothing beyond; below 0.8 it is not clipped.
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.0),
        (1.5, 2.0, -2.4, 0.0),
        (0.5, 2.0, -1.0, -2.0),
        # A < 0: below 0.8 nothing more is gained, above 1.2 it is not clipped, above 3 the dual clip holds.
        (1.0, -2.0, 2.0, 2.0),
        (0.5, -2.0, 1.6, 0.0),
        (1.5, -2.0, 3.0, 2.0),
        (2.9, -2.0, 5.8, 2.0),
        (3.5, -2.0, 6.0, 0.0),
        (100.0, -2.0, 6.0, 0.0),
        # The dual clip is for A < 0 only: a large ratio with A > 0 stays at 1.2 A.
        (100.0, 2.0, -2.4, 0.0),
        (5.0, 0.0, 0.0, 0.0),
    ],
)
def test_regions_of_the_dual_clipped_loss_by_hand(
    ratio: float, advantage: float, loss: float, slope: float
) -> None:
    assert loss_of(ratio, advantage) == pytest.approx((loss, slope), abs=1e-12)


def test_the_log_ratio_is_clamped_to_20() -> None:
    logp = torch.tensor([-1.0, -50.0, -2.0], dtype=torch.float64, requires_grad=True)
    ratio = bounded_ratio(logp, torch.tensor([-60.0, -1.0, -2.0], dtype=torch.float64), PAPER)
    assert ratio.tolist() == pytest.approx([math.exp(20.0), math.exp(-20.0), 1.0])
    ratio.sum().backward()
    assert logp.grad is not None
    assert logp.grad.tolist() == [0.0, 0.0, 1.0]  # none beyond the clamp


@settings(deadline=None, max_examples=100)
@given(LOGPROB, LOGPROB, st.floats(-30.0, 30.0))
def test_token_loss_is_the_papers_formula(logp: float, behaviour: float, advantage: float) -> None:
    tensors = [torch.tensor([value], dtype=torch.float64) for value in (logp, behaviour, advantage)]
    loss, _ = surrogate_loss(*tensors, torch.ones(1, dtype=torch.float64), PAPER)
    assert loss.item() == pytest.approx(paper_token_loss(logp, behaviour, advantage), rel=1e-9, abs=1e-9)


def test_share_averages_tokens_of_a_response_and_then_responses() -> None:
    assert response_share(4, 1.0, 10, PAPER) == pytest.approx(1 / 40)
    assert response_share(4, 2.5, 10, PAPER) == pytest.approx(2.5 / 40)
    assert response_share(0, 1.0, 10, PAPER) == pytest.approx(1e7)  # eps keeps it finite; no token uses it


def test_gradient_agrees_with_finite_differences() -> None:
    torch.manual_seed(0)
    behaviour = -5 * torch.rand(40, dtype=torch.float64)
    advantage = 4 * torch.rand(40, dtype=torch.float64) - 2
    # Away from the kinks of the clips, where there is no derivative to compare with.
    offsets = torch.tensor([-25.0, -0.5, -0.1, 0.1, 0.5, 2.0, 25.0, 0.01], dtype=torch.float64).repeat(5)
    share = torch.rand(40, dtype=torch.float64)

    def loss(logp: torch.Tensor) -> torch.Tensor:
        return surrogate_loss(logp, behaviour, advantage, share, PAPER)[0]

    logp = (behaviour + offsets).requires_grad_()
    assert torch.autograd.gradcheck(loss, (logp,))


def test_statistics_of_a_hand_made_batch() -> None:
    behaviour = torch.tensor([-1.0, -2.0, -3.0, -1.0], dtype=torch.float64)
    advantage = torch.tensor([0.5, -1.0, -1.0, -1.0], dtype=torch.float64)
    logp = behaviour + torch.tensor([1.5, 0.5, 4.0, 0.1], dtype=torch.float64).log()
    _, row = surrogate_loss(logp, behaviour, advantage, torch.full((4,), 0.25, dtype=torch.float64), PAPER)
    stats = LossStats.of(row.tolist())
    # Losses by hand: -1.2 x 0.5 (clipped), 0.8 x 1 (clipped), 3 x 1 (dual clipped), 0.8 x 1 (clipped).
    assert stats.loss == pytest.approx((-0.6 + 0.8 + 3.0 + 0.8) / 4)
    assert (stats.tokens, stats.clipped, stats.dual_clipped) == (4, 3, 1)
    assert stats.advantage == pytest.approx(0.5 - 1.0 - 1.0 - 1.0)
    assert (stats.ratio_min, stats.ratio_max) == pytest.approx((0.1, 4.0))
    assert stats.ratio == pytest.approx(6.1)


def test_statistics_add_up() -> None:
    one = LossStats(1.0, 2, 3.0, 1, 0, 2.0, 0.9, 1.1)
    assert one + LossStats() == one
    assert one + LossStats(1.0, 1, 1.0, 0, 1, 4.0, 0.5, 4.0) == LossStats(2.0, 3, 4.0, 1, 1, 6.0, 0.5, 4.0)
