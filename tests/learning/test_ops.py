"""Hand-written gradients against finite differences, and values against plain expressions."""

from __future__ import annotations

import torch

from actfirst.learning.ops import rms_norm, rotate


def test_rms_norm() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 3, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(8, dtype=torch.float64, requires_grad=True)
    plain = x / (x.square().mean(-1, keepdim=True) + 1e-2).sqrt() * weight
    assert torch.allclose(rms_norm(x, weight, 1e-2), plain)
    assert torch.autograd.gradcheck(lambda a, b: rms_norm(a, b, 1e-2), (x, weight))


def test_rms_norm_of_zeros_is_zero_with_a_finite_gradient() -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    result = rms_norm(x, torch.ones(4), 1e-6)
    result.sum().backward()
    assert result.count_nonzero() == 0
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_rotate() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 3, 8, dtype=torch.float64, requires_grad=True)
    angle = torch.rand(5, 1, 4, dtype=torch.float64)
    pairs = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angle), angle)
    turned = rotate(x, angle.cos(), angle.sin())
    assert torch.allclose(turned, torch.cat((pairs.real, pairs.imag), dim=-1))
    assert torch.autograd.gradcheck(lambda a: rotate(a, angle.cos(), angle.sin()), (x,))
