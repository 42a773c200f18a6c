"""The token-wise pieces of a decoder layer, in two forms that compute the same.

`Plain` is written for a CPU and is what the other one is tested against: norms in float32, rounded where a matrix
product asks for it. `Fused` is for a GPU: each piece is one kernel (`kernels.py`), and what it hands to a matrix
product is rounded already, so that far fewer bytes move. In float32 they agree but for the order of sums; in bfloat16
`Fused` rounds less often: at the end of each piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from actfirst.learning import kernels
from actfirst.learning.ops import rms_norm, rotate

# transformers is not typed; what is used of its modules is named below.
Module: TypeAlias = Any
Rotation: TypeAlias = tuple[Tensor, Tensor]


class Pieces(Protocol):
    def normed(self, state: Tensor, norm: Module) -> tuple[Tensor, Tensor]:
        """The residual stream as it was, and its norm."""
        ...

    def added(self, state: Tensor, change: Tensor, norm: Module) -> tuple[Tensor, Tensor]:
        """The residual stream with the change, and its norm."""
        ...

    def turned(self, heads: Tensor, norm: Module | None, rotation: Rotation) -> Tensor:
        """Heads normed, where there is a norm, and rotated to their positions."""
        ...

    def mlp(self, mlp: Module, normed: Tensor) -> Tensor: ...

    def target_logprobs(self, logits_NV: Tensor, target_N: Tensor) -> Tensor:
        """Log-prob of each target under the full vocabulary, in float32."""
        ...


class Plain:
    def normed(self, state: Tensor, norm: Module) -> tuple[Tensor, Tensor]:
        return state, rms_norm(state.float(), norm.weight.float(), norm.variance_epsilon)

    def added(self, state: Tensor, change: Tensor, norm: Module) -> tuple[Tensor, Tensor]:
        return self.normed(state + change, norm)

    def turned(self, heads: Tensor, norm: Module | None, rotation: Rotation) -> Tensor:
        return rotate(heads if norm is None else self.normed(heads, norm)[1], *rotation)

    def mlp(self, mlp: Module, normed: Tensor) -> Tensor:
        return mlp(normed)  # type: ignore[no-any-return]

    def target_logprobs(self, logits_NV: Tensor, target_N: Tensor) -> Tensor:
        return -functional.cross_entropy(logits_NV.float(), target_N, reduction="none")


@dataclass(frozen=True)
class Fused:
    """`half`: matrix products compute in bfloat16."""

    half: bool

    def normed(self, state: Tensor, norm: Module) -> tuple[Tensor, Tensor]:
        return _Norm.apply(state, norm.weight, norm.variance_epsilon, self.half)  # type: ignore[no-untyped-call, no-any-return]

    def added(self, state: Tensor, change: Tensor, norm: Module) -> tuple[Tensor, Tensor]:
        return _AddNorm.apply(state, change, norm.weight, norm.variance_epsilon, self.half)  # type: ignore[no-untyped-call, no-any-return]

    def turned(self, heads: Tensor, norm: Module | None, rotation: Rotation) -> Tensor:
        weight, eps = (None, 0.0) if norm is None else (norm.weight, norm.variance_epsilon)
        return _Turn.apply(heads, weight, eps, *rotation)  # type: ignore[no-untyped-call, no-any-return]

    def mlp(self, mlp: Module, normed: Tensor) -> Tensor:
        mixed: Tensor = _Gate.apply(mlp.gate_proj(normed), mlp.up_proj(normed))  # type: ignore[no-untyped-call]
        return mlp.down_proj(mixed)  # type: ignore[no-any-return]

    def target_logprobs(self, logits_NV: Tensor, target_N: Tensor) -> Tensor:
        return _TargetLogprob.apply(logits_NV, target_N)  # type: ignore[no-untyped-call, no-any-return]


PLAIN = Plain()


class _Norm(Function):
    """Hands the state on beside its norm, so that both gradients meet in one kernel on the way back."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, weight: Tensor, eps: float, half: bool) -> tuple[Tensor, Tensor]:
        normed, scale = kernels.norm(state, weight, eps, half)
        ctx.save_for_backward(state, scale, weight)
        ctx.set_materialize_grads(False)
        return state, normed

    @staticmethod
    def backward(ctx: Any, beside: Tensor | None, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        state, scale, weight = ctx.saved_tensors
        total, _ = kernels.norm_grad(grad, beside, state, scale, weight, False)
        return total, kernels.norm_weight_grad(grad, state, scale).to(weight.dtype), None, None


class _AddNorm(Function):
    @staticmethod
    def forward(
        ctx: Any, state: Tensor, change: Tensor, weight: Tensor, eps: float, half: bool
    ) -> tuple[Tensor, Tensor]:
        total, normed, scale = kernels.add_norm(state, change, weight, eps, half)
        ctx.save_for_backward(total, scale, weight)
        ctx.half = change.dtype == torch.bfloat16
        return total, normed

    @staticmethod
    def backward(ctx: Any, beside: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        state, scale, weight = ctx.saved_tensors
        total, rounded = kernels.norm_grad(grad, beside, state, scale, weight, ctx.half)
        weight_grad = kernels.norm_weight_grad(grad, state, scale).to(weight.dtype)
        return total, rounded if ctx.half else total, weight_grad, None, None


class _Turn(Function):
    @staticmethod
    def forward(ctx: Any, heads: Tensor, weight: Tensor | None, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(heads, weight, cos, sin)
        ctx.eps = eps
        turned: Tensor = kernels.turn(heads, weight, eps, cos, sin)
        return turned

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        heads, weight, cos, sin = ctx.saved_tensors
        back = kernels.turn_grad(grad, heads, weight, ctx.eps, cos, sin)
        if weight is None:
            return back, None, None, None, None
        weight_grad = kernels.turn_weight_grad(grad, heads, ctx.eps, cos, sin).to(weight.dtype)
        return back, weight_grad, None, None, None


class _Gate(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(gates, values)
        mixed: Tensor = kernels.gate(gates, values)
        return mixed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        both: tuple[Tensor, Tensor] = kernels.gate_grad(grad, *ctx.saved_tensors)
        return both


class _TargetLogprob(Function):
    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, target_N: Tensor) -> Tensor:
        picked_N: Tensor
        picked_N, total_N = kernels.target_logprob(logits_NV, target_N)
        ctx.save_for_backward(logits_NV, target_N, total_N)
        return picked_N

    @staticmethod
    def backward(ctx: Any, grad_N: Tensor) -> tuple[Tensor, None]:
        return kernels.target_logprob_grad(grad_N, *ctx.saved_tensors), None
