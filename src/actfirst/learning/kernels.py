"""Token-wise work of the forward and backward pass, cut into pieces that are one kernel each on a GPU.

Each piece reads its inputs once, computes in float32 and writes its outputs once; intermediate values never reach the
memory. On a GPU torch.compile makes the kernel from the expression below; elsewhere the expression itself runs.
Gradients are written out, because autograd would save the intermediate values. Sums over tokens (gradients of norm
weights) are kernels of their own, since they run along the other dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor

Kernel = Callable[..., Any]


def _kernel(expression: Kernel) -> Kernel:
    """An operator of torch with this expression: a whole for everybody who looks from outside (autocast, counters)."""

    @wraps(expression)
    def run(*arguments: Any) -> Any:
        on_gpu = any(isinstance(value, Tensor) and value.is_cuda for value in arguments)
        return (_compiled(expression) if on_gpu else expression)(*arguments)

    operator = torch.library.custom_op(f"actfirst::{expression.__name__}", run, mutates_args=())
    operator.register_fake(expression)
    return operator


@cache
def _compiled(expression: Kernel) -> Kernel:
    return torch.compile(expression, dynamic=True, fullgraph=True)


def _rounded(value: Tensor, half: bool) -> Tensor:
    return value.to(torch.bfloat16) if half else value


@_kernel
def norm(state: Tensor, weight: Tensor, eps: float, half: bool) -> tuple[Tensor, Tensor]:
    """RMS norm over the last dimension, and the factor of each row."""
    scale = (state.square().mean(-1, keepdim=True) + eps).rsqrt()
    return _rounded(state * scale * weight.float(), half), scale


@_kernel
def add_norm(
    state: Tensor, change: Tensor, weight: Tensor, eps: float, half: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum, its norm, and the factor of each row."""
    total = state + change.float()
    scale = (total.square().mean(-1, keepdim=True) + eps).rsqrt()
    return total, _rounded(total * scale * weight.float(), half), scale


@_kernel
def norm_grad(
    grad: Tensor, beside: Tensor | None, state: Tensor, scale: Tensor, weight: Tensor, half: bool
) -> tuple[Tensor, Tensor]:
    """The gradient of what was normed, plus the one that comes `beside` the norm; with `half` also as bfloat16."""
    # y = w s x with s = (mean x^2 + eps)^-1/2, so dx = s (w g - x s^2 mean(w g x)).
    weighted = grad.float() * weight.float()
    mean = (weighted * state).mean(-1, keepdim=True) * scale * scale
    total = (weighted - state * mean) * scale
    if beside is not None:
        total = total + beside
    return total, total.to(torch.bfloat16) if half else total.new_empty(0)


@_kernel
def norm_weight_grad(grad: Tensor, state: Tensor, scale: Tensor) -> Tensor:
    return (grad.float() * state * scale).sum(0)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def _head_scale(x: Tensor, eps: float) -> Tensor:
    return (x.square().mean(-1, keepdim=True) + eps).rsqrt()


@_kernel
def turn(x: Tensor, weight: Tensor | None, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    """Heads (rows, heads, size): normed, where there is a weight, and rotated."""
    values = x.float()
    if weight is not None:
        values = values * _head_scale(values, eps) * weight.float()
    return _turned(values, cos, sin).to(x.dtype)


@_kernel
def turn_grad(grad: Tensor, x: Tensor, weight: Tensor | None, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    back = _turned(grad.float(), cos, -sin)  # the transpose of a rotation is the rotation back
    if weight is None:
        return back.to(x.dtype)
    values = x.float()
    scale, weighted = _head_scale(values, eps), back * weight.float()
    mean = (weighted * values).mean(-1, keepdim=True) * scale * scale
    return ((weighted - values * mean) * scale).to(x.dtype)


@_kernel
def turn_weight_grad(grad: Tensor, x: Tensor, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    values = x.float()
    return (_turned(grad.float(), cos, -sin) * values * _head_scale(values, eps)).sum((0, 1))


@_kernel
def gate(gates: Tensor, values: Tensor) -> Tensor:
    """silu(gates) x values."""
    wide = gates.float()
    return (wide * wide.sigmoid() * values.float()).to(gates.dtype)


@_kernel
def gate_grad(grad: Tensor, gates: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    wide, given = gates.float(), grad.float()
    sigmoid = wide.sigmoid()
    silu = wide * sigmoid
    slope = sigmoid + silu * (1 - sigmoid)
    return (given * values.float() * slope).to(gates.dtype), (given * silu).to(values.dtype)


@_kernel
def target_logprob(logits_NV: Tensor, target_N: Tensor) -> tuple[Tensor, Tensor]:
    """Log-prob of each target under the full vocabulary, and the logarithm of each row's sum."""
    total_N = logits_NV.float().logsumexp(-1)
    picked = logits_NV.gather(-1, target_N.unsqueeze(-1)).squeeze(-1).float()
    return picked - total_N, total_N


@_kernel
def target_logprob_grad(grad_N: Tensor, logits_NV: Tensor, target_N: Tensor, total_N: Tensor) -> Tensor:
    share_NV = (logits_NV.float() - total_N.unsqueeze(-1)).exp()
    entries_V = torch.arange(logits_NV.shape[-1], device=logits_NV.device)
    hit_NV = (entries_V == target_N.unsqueeze(-1)).float()
    return ((hit_NV - share_NV) * grad_N.unsqueeze(-1)).to(logits_NV.dtype)
