"""Two token-wise operations with hand-written gradients: RMS norm and rotary position embedding.

Written as plain expressions they make the update of a small model on a CPU about a sixth longer, mostly by moving
temporaries through memory. Here each saves only its inputs and makes few temporaries; the values are the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx


class _RmsNorm(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, scale, weight)
        return torch.mul(x, scale).mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        # y = w s x with s = (mean x^2 + eps)^-1/2, so dx = s (w g - x s^2 mean(w g x)) and dw = sum s g x.
        x, scale, weight = ctx.saved_tensors
        product = grad * x
        grad_weight = scale.flatten() @ product.flatten(0, -2)
        mean = (product @ weight).unsqueeze(-1).mul_(scale).mul_(scale).div_(-x.shape[-1])
        return (grad * weight).addcmul_(x, mean).mul_(scale), grad_weight, None


class _Rotate(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(grad, cos, -sin), None, None  # the transpose of a rotation is the rotation back


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension."""
    result: Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + half) of the last dimension; `cos` and `sin` hold one angle per pair."""
    result: Tensor = _Rotate.apply(x, cos, sin)  # type: ignore[no-untyped-call]
    return result


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    result = torch.empty_like(x)
    torch.mul(first, cos, out=result[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=result[..., half:]).addcmul_(first, sin)
    return result
