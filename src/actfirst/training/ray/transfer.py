"""Weights on their way through the object store, in the precision in which engines compute.

Numpy arrays, because Ray hands them to a process of the same machine without a copy. The other way is a broadcast
(`engines/weight_group.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from actfirst.engines.weight_group import DTYPES

Array: TypeAlias = NDArray[Any]
_PARCEL_BYTES = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class Packed:
    """A tensor as an array; numpy has no bfloat16, so its bits travel as integers."""

    array: Array
    dtype: str


Parcel: TypeAlias = dict[str, Packed]


def parcels(weights: Iterable[tuple[str, Tensor]], dtype: str) -> Iterator[Parcel]:
    """The weights in parcels of bounded size, so that one is on its way while the next is made."""
    parcel: Parcel = {}
    size = 0
    for name, tensor in weights:
        packed = _packed(tensor, dtype)
        if parcel and size + packed.array.nbytes > _PARCEL_BYTES:
            yield parcel
            parcel, size = {}, 0
        parcel[name] = packed
        size += packed.array.nbytes
    if parcel:
        yield parcel


def unpacked(all_parcels: Iterable[Parcel]) -> dict[str, Tensor]:
    """The tensors of parcels. They share memory with them, which may be read only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nobody writes to them
        return {name: _unpacked(packed) for parcel in all_parcels for name, packed in parcel.items()}


def _packed(tensor: Tensor, dtype: str) -> Packed:
    half = tensor.detach().to(DTYPES[dtype]).cpu().contiguous()
    return Packed((half.view(torch.int16) if dtype == "bfloat16" else half).numpy(), dtype)


def _unpacked(packed: Packed) -> Tensor:
    tensor = torch.from_numpy(packed.array)
    return tensor.view(torch.bfloat16) if packed.dtype == "bfloat16" else tensor
