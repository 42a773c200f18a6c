"""Matrices that rows are multiplied by, in the form in which that is fastest.

A large float32 matrix on a CPU is stored in oneDNN's blocks: products of 8 to 32 rows take half the time of a plain
matrix, those of a prompt four fifths, and what follows a product (silu, a sum) is done while its result is still near.
A small one stays plain, since a call of oneDNN costs more than the product saves. Which of the two a matrix is depends
on its size alone, so a model computes the same in every batch.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

_LARGE = 1 << 18  # elements
_ROWS = 256  # the number of rows that blocks are chosen for


class Matrix(Protocol):
    def install(self, matrix_IO: Tensor) -> None:
        """Take new values, of any type."""

    def times(self, rows: Tensor, bias: Tensor | None = None) -> Tensor: ...

    def added(self, rows: Tensor, to: Tensor) -> Tensor:
        """`to` and the product; `to` may be overwritten."""

    def tensors(self) -> list[Tensor]: ...


class Gated(Protocol):
    """silu(rows @ gate) * (rows @ up)."""

    def install(self, gate_IO: Tensor, up_IO: Tensor) -> None: ...

    def times(self, rows: Tensor) -> Tensor: ...

    def tensors(self) -> list[Tensor]: ...


def matrix(inputs: int, outputs: int, dtype: torch.dtype) -> Matrix:
    """One without values."""
    return Blocked() if blocked(inputs, outputs, dtype) else Plain(torch.empty(inputs, outputs, dtype=dtype))


def gated(inputs: int, outputs: int, dtype: torch.dtype) -> Gated:
    """Two without values."""
    return BlockedGated() if blocked(inputs, outputs, dtype) else PlainGated(inputs, outputs, dtype)


def blocked(inputs: int, outputs: int, dtype: torch.dtype) -> bool:
    """Whether a matrix of this size is stored in blocks."""
    onednn = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    here = onednn and torch.get_default_device().type == "cpu"
    return here and dtype is torch.float32 and inputs * outputs >= _LARGE


class Plain:
    """In memory that it is given."""

    def __init__(self, memory_IO: Tensor) -> None:
        self._IO = memory_IO

    def install(self, matrix_IO: Tensor) -> None:
        self._IO.copy_(matrix_IO)

    def times(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.mm(rows, self._IO) if bias is None else torch.addmm(bias, rows, self._IO)

    def added(self, rows: Tensor, to: Tensor) -> Tensor:
        return to.addmm_(rows, self._IO)

    def tensors(self) -> list[Tensor]:
        return [self._IO]


class PlainGated:
    """Both side by side, so that there is one product."""

    def __init__(self, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        self._both = Plain(torch.empty(inputs, 2 * outputs, dtype=dtype))

    def install(self, gate_IO: Tensor, up_IO: Tensor) -> None:
        self._both.install(torch.cat((gate_IO, up_IO), 1))

    def times(self, rows: Tensor) -> Tensor:
        gate, up = self._both.times(rows).chunk(2, -1)
        return functional.silu(gate).mul_(up)

    def tensors(self) -> list[Tensor]:
        return self._both.tensors()


class Blocked:
    _blocks: Tensor

    def install(self, matrix_IO: Tensor) -> None:
        self._blocks = torch.ops.mkldnn._reorder_linear_weight(matrix_IO.float().t().contiguous(), _ROWS)

    def times(self, rows: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._blocks, bias, then, [], "")
        return product

    def added(self, rows: Tensor, to: Tensor) -> Tensor:
        return self.joined(rows, to, "add")

    def joined(self, rows: Tensor, other: Tensor, how: str) -> Tensor:
        joined: Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, other, self._blocks, None, how)
        return joined

    def tensors(self) -> list[Tensor]:
        return [self._blocks]


class BlockedGated:
    def __init__(self) -> None:
        self._gate, self._up = Blocked(), Blocked()

    def install(self, gate_IO: Tensor, up_IO: Tensor) -> None:
        self._gate.install(gate_IO)
        self._up.install(up_IO)

    def times(self, rows: Tensor) -> Tensor:
        return self._up.joined(rows, self._gate.times(rows, then="swish"), "mul")

    def tensors(self) -> list[Tensor]:
        return [*self._gate.tensors(), *self._up.tensors()]
