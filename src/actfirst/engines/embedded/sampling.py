"""Draws one token for each row of logits by inverse CDF, with the log-prob of the distribution it drew from.

A row's distribution is softmax(logits / temperature), cut to its top_k most likely tokens, cut again to the
smallest set whose probability reaches top_p, and renormalised. Each request has its own stream of uniform
numbers, so what it draws depends on nothing else in the batch (but for rounding: in bfloat16, where products
of different sizes round visibly, a draw at the edge of two tokens may fall the other way).

Temperature 0 takes the most likely token; its log-prob is that of the uncut distribution at temperature 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from actfirst.engines.base import Sampling


class Sampler:
    """The sampling settings of the rows of a batch. Built when the batch changes, called every step."""

    def __init__(self, settings: Sequence[Sampling]) -> None:
        greedy = [s.temperature == 0.0 for s in settings]
        cut = [i for i, s in enumerate(settings) if s.temperature > 0 and (s.top_p < 1 or s.top_k > 0)]
        temperatures = [s.temperature or 1.0 for s in settings]
        self._greedy = torch.tensor(greedy) if any(greedy) else None
        plain = all(t == 1.0 for t in temperatures)
        self._temperature_R1 = None if plain else torch.tensor(temperatures).unsqueeze(1)
        self._cut_rows = torch.tensor(cut) if cut else None
        if not cut:
            return
        self._top_p = torch.tensor([[settings[i].top_p] for i in cut], dtype=torch.float64)
        self._top_k = torch.tensor([[settings[i].top_k or 2**31] for i in cut])
        self._widest = max((settings[i].top_k or 2**31 for i in cut), default=0)

    def draw(self, logits_RV: Tensor, uniforms: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Tokens [R] and their log-probs [R]; `uniforms` are one number in [0, 1) for each row."""
        if self._temperature_R1 is not None:
            logits_RV = logits_RV / self._temperature_R1
        probs_RV = torch.softmax(logits_RV, -1)
        uniforms_R1 = torch.tensor(uniforms, dtype=torch.float64).unsqueeze(1)
        tokens_R1 = _inverse_cdf(probs_RV, uniforms_R1)
        if self._greedy is not None:
            tokens_R1 = torch.where(self._greedy.unsqueeze(1), logits_RV.argmax(-1, keepdim=True), tokens_R1)
        chosen_R1 = probs_RV.gather(1, tokens_R1)
        if self._cut_rows is not None:
            rows = self._cut_rows
            tokens, chosen = self._draw_cut(probs_RV[rows], uniforms_R1[rows])
            tokens_R1[rows], chosen_R1[rows] = tokens, chosen
        return tokens_R1.squeeze(1), chosen_R1.log_().squeeze(1)

    def _draw_cut(self, probs_CV: Tensor, uniforms_C1: Tensor) -> tuple[Tensor, Tensor]:
        width = min(self._widest, probs_CV.shape[1])
        sorted_CW, order_CW = probs_CV.topk(width) if width < probs_CV.shape[1] else probs_CV.sort(-1, True)
        kept_CW = sorted_CW.double()
        kept_CW[torch.arange(width) >= self._top_k] = 0.0
        kept_CW /= kept_CW.sum(-1, keepdim=True)
        before_CW = kept_CW.cumsum(-1) - kept_CW
        kept_CW[before_CW >= self._top_p] = 0.0
        kept_CW /= kept_CW.sum(-1, keepdim=True)
        drawn_C1 = _inverse_cdf(kept_CW, uniforms_C1)
        return order_CW.gather(1, drawn_C1), kept_CW.gather(1, drawn_C1).float()


def _inverse_cdf(probs_RV: Tensor, uniforms_R1: Tensor) -> Tensor:
    """The first index at which the running sum exceeds the uniform number: never one of probability 0."""
    cdf_RV = probs_RV.cumsum(-1, dtype=torch.float64)
    drawn_R1 = torch.searchsorted(cdf_RV, uniforms_R1 * cdf_RV[:, -1:], right=True)
    return drawn_R1.clamp_(max=probs_RV.shape[1] - 1)


def gather_logprobs(
    logits_RV: Tensor, targets_R: Tensor, alternatives: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probs [R] of the given tokens at temperature 1; the A most likely tokens [R, A] and theirs [R, A]."""
    chosen_R = logits_RV.gather(1, targets_R.unsqueeze(1)).squeeze(1)
    total_R = torch.logsumexp(logits_RV, -1)
    highest_RA, tokens_RA = logits_RV.topk(alternatives)
    return chosen_R - total_R, tokens_RA, highest_RA - total_R.unsqueeze(1)
