"""The policy-gradient surrogate as pure functions on tensors.

Paper, appendix "OPD Optimization": bounded ratio, dual-clipped PPO token loss and seq-mean-token-mean aggregation.
For methods that learn from rewards there are two more terms, off by default: the KL to a frozen anchor (the
low-variance estimator of the sampled tokens) and the entropy.
Tensors ending in `_N` hold one value per supervised token of any number of responses: inserted tokens (mask 0) and
padding are left out before they get here, so they count in no loss and no normaliser. Nothing here knows a model, a
batch layout, or where advantages come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from actfirst.records import TurnSample

_KL_MOST = 10.0  # a token counts this much at most: one that became unlikely must not outweigh all others


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Constants of the token loss; the defaults are the paper's.

    With `likelihood` the loss of a token is minus its log-prob times its advantage, whatever the behaviour was: with
    advantages of 1 that is the cross-entropy of supervised fine-tuning.
    """

    clip: float = 0.2
    dual_clip: float = 3.0
    log_ratio_clamp: float = 20.0
    eps: float = 1e-8
    kl_weight: float = 0.0
    entropy_weight: float = 0.0
    likelihood: bool = False


@dataclass(frozen=True, slots=True)
class LossStats:
    """Sums and extremes over supervised tokens, so that parts of a batch can be put together with `+`."""

    loss: float = 0.0
    tokens: int = 0
    advantage: float = 0.0
    clipped: int = 0
    dual_clipped: int = 0
    ratio: float = 0.0
    ratio_min: float = float("inf")
    ratio_max: float = float("-inf")
    kl: float = 0.0
    entropy: float = 0.0

    @classmethod
    def of(cls, row: Sequence[float]) -> LossStats:
        """From what `surrogate_loss` gives, read from the device."""
        loss, tokens, advantage, clipped, dual_clipped, *others = row
        return cls(loss, int(tokens), advantage, int(clipped), int(dual_clipped), *others)

    def __add__(self, other: LossStats) -> LossStats:
        return LossStats(
            self.loss + other.loss,
            self.tokens + other.tokens,
            self.advantage + other.advantage,
            self.clipped + other.clipped,
            self.dual_clipped + other.dual_clipped,
            self.ratio + other.ratio,
            min(self.ratio_min, other.ratio_min),
            max(self.ratio_max, other.ratio_max),
            self.kl + other.kl,
            self.entropy + other.entropy,
        )


def bounded_ratio(logp_N: Tensor, behaviour_N: Tensor, config: LossConfig) -> Tensor:
    """rho = exp(clip(log pi - log pi_behaviour, -20, 20))."""
    bound = config.log_ratio_clamp
    return (logp_N - behaviour_N.detach()).clamp(-bound, bound).exp()


def token_loss(ratio_N: Tensor, advantage_N: Tensor, config: LossConfig) -> Tensor:
    """The PPO loss of each token, bounded by -kappa A where A < 0."""
    clipped_N = ratio_N.clamp(1.0 - config.clip, 1.0 + config.clip)
    ppo_N = -torch.minimum(ratio_N * advantage_N, clipped_N * advantage_N)
    dual_N = torch.minimum(ppo_N, -config.dual_clip * advantage_N)
    return torch.where(advantage_N < 0, dual_N, ppo_N)


def response_share(supervised: int, weight: float, responses: int, config: LossConfig) -> float:
    """What one token's loss counts in the whole: w_b / (|B| (sum_j m_bj + eps)).

    `responses` is |B| of the whole optimisation batch, also of responses without any supervised token.
    """
    return weight / (responses * (supervised + config.eps))


def token_mean(samples: Sequence[TurnSample]) -> list[TurnSample]:
    """The samples with weights that turn seq-mean-token-mean into one mean over all supervised tokens."""
    lengths = [sum(sample.mask) for sample in samples]
    mean = fmean(lengths) or 1.0
    return [replace(sample, weight=sample.weight * length / mean) for sample, length in zip(samples, lengths)]


def anchor_kl(logp_N: Tensor, anchor_N: Tensor, config: LossConfig) -> Tensor:
    """The KL to the anchor, estimated at each sampled token: r - log r - 1 with r = pi_anchor / pi."""
    bound = config.log_ratio_clamp
    log_r_N = (anchor_N.detach() - logp_N).clamp(-bound, bound)
    return (log_r_N.exp() - log_r_N - 1.0).clamp(max=_KL_MOST)


def surrogate_loss(
    logp_N: Tensor,
    behaviour_N: Tensor,
    advantage_N: Tensor,
    share_N: Tensor,
    config: LossConfig,
    anchor_N: Tensor | None = None,
    entropy_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The part of L_sur that these tokens contribute, and its statistics: a row for `LossStats.of`, on the device.

    `anchor_N` and `entropy_N` are read where their weights are not 0.
    """
    ratio_N = bounded_ratio(logp_N, behaviour_N, config)
    loss_N = -advantage_N * logp_N if config.likelihood else token_loss(ratio_N, advantage_N, config)
    kl = entropy = loss_N.new_zeros((), dtype=torch.float64)
    if config.kl_weight and anchor_N is not None:
        kl_N = anchor_kl(logp_N, anchor_N, config)
        loss_N = loss_N + config.kl_weight * kl_N
        kl = kl_N.detach().double().sum()
    if config.entropy_weight and entropy_N is not None:
        loss_N = loss_N - config.entropy_weight * entropy_N
        entropy = entropy_N.detach().double().sum()
    loss = (share_N * loss_N).sum()
    row = _statistics(loss.detach(), ratio_N.detach(), advantage_N, config)
    return loss, torch.stack([value.double() for value in (*row, kl, entropy)])


def fetch(tables: Sequence[Tensor]) -> LossStats:
    """The sum over micro-batches, each with one row for each of its parts. The device is asked once for all."""
    if not tables:
        return LossStats()
    rows = iter(torch.cat(list(tables)).tolist())
    batches = [sum((LossStats.of(next(rows)) for _ in table), LossStats()) for table in tables]
    return sum(batches, LossStats())


def _statistics(loss: Tensor, ratio_N: Tensor, advantage_N: Tensor, config: LossConfig) -> tuple[Tensor, ...]:
    clipped_N = ratio_N.clamp(1.0 - config.clip, 1.0 + config.clip)
    falling_N = advantage_N < 0
    ppo_clips_N = clipped_N * advantage_N < ratio_N * advantage_N
    dual_clips_N = falling_N & (ratio_N > config.dual_clip)
    return (
        loss,
        loss.new_full((), ratio_N.numel(), dtype=torch.float64),
        advantage_N.double().sum(),
        ppo_clips_N.sum(),
        dual_clips_N.sum(),
        ratio_N.double().sum(),
        ratio_N.min(),
        ratio_N.max(),
    )
