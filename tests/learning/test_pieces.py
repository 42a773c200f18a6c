"""The pieces for a GPU compute what the plain ones compute, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from actfirst.learning import kernels
from actfirst.learning.pieces import PLAIN, Fused, Pieces
from actfirst.learning.update import Learner
from tests.learning.making import learning, make_episodes, make_samples

NORM = SimpleNamespace(weight=torch.linspace(0.5, 1.5, 8), variance_epsilon=1e-2)
ANGLE = torch.linspace(0, 3, 20).reshape(5, 1, 4)
ROTATION = (ANGLE.cos(), ANGLE.sin())


def norm() -> Any:
    return SimpleNamespace(weight=NORM.weight.clone().requires_grad_(), variance_epsilon=1e-2)


def given(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def gradients(results: tuple[Tensor, ...], inputs: list[Tensor]) -> list[Tensor]:
    """Of a sum in which every entry of every result has a factor of its own."""
    total = sum(
        (value * torch.randn(value.shape, generator=torch.Generator().manual_seed(9))).sum()
        for value in results
    )
    assert isinstance(total, Tensor)
    return list(torch.autograd.grad(total, inputs))


def normed(pieces: Pieces) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    state, by = given(5, 8, seed=1), norm()
    return pieces.normed(state * 1, by), [state, by.weight]


def added(pieces: Pieces) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    state, change, by = given(5, 8, seed=1), given(5, 8, seed=2), norm()
    return pieces.added(state * 1, change, by), [state, change, by.weight]


def turned(pieces: Pieces) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    heads, by = given(5, 3, 8, seed=1), norm()
    return (pieces.turned(heads, by, ROTATION),), [heads, by.weight]


def turned_without_norm(pieces: Pieces) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    heads = given(5, 3, 8, seed=1)
    return (pieces.turned(heads, None, ROTATION),), [heads]


def target_logprobs(pieces: Pieces) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    logits = given(4, 11, seed=1)
    return (pieces.target_logprobs(logits, torch.tensor([0, 10, 3, 3])),), [logits]


@pytest.mark.parametrize("piece", [normed, added, turned, turned_without_norm, target_logprobs])
def test_each_piece_has_the_values_and_gradients_of_the_plain_one(
    piece: Callable[[Pieces], tuple[tuple[Tensor, ...], list[Tensor]]],
) -> None:
    (ours, given_here), (theirs, given_there) = piece(Fused(half=False)), piece(PLAIN)
    for one, other in zip(
        (*ours, *gradients(ours, given_here)), (*theirs, *gradients(theirs, given_there)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_what_goes_into_a_matrix_product_is_rounded_and_the_residual_stream_is_not() -> None:
    fused, state = Fused(half=True), given(5, 8, seed=1)
    stream, rounded = fused.added(state * 1, given(5, 8, seed=2).bfloat16(), norm())
    assert (stream.dtype, rounded.dtype) == (torch.float32, torch.bfloat16)
    assert fused.turned(given(5, 3, 8, seed=1).bfloat16(), norm(), ROTATION).dtype == torch.bfloat16


@pytest.mark.parametrize("again", [False, True], ids=["kept", "recomputed"])
def test_an_update_in_float32_is_that_of_the_plain_pieces(checkpoint: Path, again: bool) -> None:
    """Three architectures; prefixes shared and not."""
    samples = [*make_samples(5), *make_episodes(2, 3)]
    plain, fused = (
        Learner(checkpoint, learning(kernels=kind, activation_checkpointing=again))
        for kind in ("plain", "fused")
    )
    ours, theirs = fused.update(samples), plain.update(samples)
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=2e-5)
    moments = plain.moments()
    for name, value in fused.moments().items():
        assert torch.allclose(value, moments[name], atol=float(2e-5 * moments[name].abs().max())), name


def test_in_bfloat16_they_are_as_near_to_float32_as_the_plain_pieces_are(qwen3: Path) -> None:
    samples = make_samples(6)

    def moments(kind: str, precision: str) -> Tensor:
        learner = Learner(qwen3, learning(kernels=kind, precision=precision))
        learner.update(samples)
        return torch.cat(
            [value.flatten() for name, value in learner.moments().items() if name.startswith("exp_avg.")]
        )

    exact, plain, fused = (
        moments("plain", "float32"),
        moments("plain", "bfloat16"),
        moments("fused", "bfloat16"),
    )
    assert (fused - exact).norm() < 1.5 * (plain - exact).norm()
    assert (fused - exact).norm() < 0.05 * exact.norm()


def test_on_a_cpu_the_plain_pieces_are_taken_unless_others_are_asked_for(qwen3: Path) -> None:
    assert Learner(qwen3, learning()).pieces is PLAIN
    assert Learner(qwen3, learning(kernels="fused")).pieces == Fused(half=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("norm", (torch.randn(64, 256), torch.ones(256), 1e-6, True)),
        ("add_norm", (torch.randn(64, 256), torch.randn(64, 256).bfloat16(), torch.ones(256), 1e-6, True)),
        ("gate", (torch.randn(64, 256).bfloat16(), torch.randn(64, 256).bfloat16())),
        ("gate_grad", tuple(torch.randn(64, 256).bfloat16() for _ in range(3))),
    ],
)
def test_the_compiler_makes_one_kernel_of_a_piece(name: str, inputs: tuple[Any, ...]) -> None:
    """By the compiler's code for a CPU; its rules for putting operations together are those for a GPU."""
    from torch._inductor import metrics

    metrics.reset()
    torch._dynamo.reset()
    expression = getattr(kernels, name)._init_fn.__wrapped__
    kernels._compiled(expression)(*inputs)
    assert metrics.generated_kernel_count == 1
