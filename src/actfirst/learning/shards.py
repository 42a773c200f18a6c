"""Tensors that several ranks hold in parts, as one safetensors file per rank. Any number of ranks reads them back.

    training/shards/rank-00000.safetensors   this rank's rows of every tensor; its header says where they belong

Rows are parts along the first dimension, which is how FSDP divides weights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from actfirst.errors import CheckpointError
from actfirst.reading import Unreadable, parse_object

_PLACES = "places"


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a tensor of `shape` that begin at row `start`. A number without dimensions is one row."""

    rows: Tensor
    start: int
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, tensor: Tensor) -> Part:
        return cls(tensor if tensor.dim() else tensor.reshape(1), 0, tuple(tensor.shape))


def write_shard(folder: Path, rank: int, parts: Mapping[str, Part]) -> None:
    """Write what one rank holds."""
    folder.mkdir(exist_ok=True)
    places = {name: {"start": part.start, "shape": list(part.shape)} for name, part in parts.items()}
    rows = {name: part.rows.detach().cpu().contiguous() for name, part in parts.items()}
    save_file(rows, folder / f"rank-{rank:05d}.safetensors", metadata={_PLACES: json.dumps(places)})


def whole_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors that the ranks wrote, put together."""
    found: dict[str, Tensor] = {}
    shapes: dict[str, list[int]] = {}
    for name, stored, start, shape in _stored_rows(folder):
        rows: Tensor = stored[:]
        shapes[name] = shape
        whole = found.setdefault(name, torch.zeros(shape or [1], dtype=rows.dtype))
        whole[start : start + len(rows)] = rows
    return {name: tensor.reshape(shapes[name]) for name, tensor in found.items()}


def fill(folder: Path, parts: Mapping[str, Part]) -> None:
    """Write into `parts` the rows that belong there; reads no others."""
    known = set()
    for name, stored, start, shape in _stored_rows(folder):
        if name not in parts or tuple(shape) != parts[name].shape:
            raise CheckpointError(
                f"{folder} is one of another model: {name} of shape {shape} is not this learner's"
            )
        known.add(name)
        part = parts[name]
        first = max(start, part.start)
        last = min(start + stored.get_shape()[0], part.start + len(part.rows))
        if first < last:
            part.rows[first - part.start : last - part.start] = stored[first - start : last - start]
    if known and known != parts.keys():
        raise CheckpointError(f"{folder} is one of another model: it lacks {min(parts.keys() - known)}")


def _stored_rows(folder: Path) -> Iterator[tuple[str, Any, int, list[int]]]:
    """Name, rows (read when they are sliced), first row and whole shape of every part that some rank wrote."""
    files = sorted(folder.iterdir())
    foreign = [path.name for path in files if path.suffix != ".safetensors"]
    if foreign:
        raise CheckpointError(
            f"{folder} holds {foreign[0]}: an earlier version of actfirst wrote the optimiser in a form that would "
            "have to be unpickled; start a new run from the checkpoint's model folder"
        )
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                places = parse_object(file.metadata()[_PLACES])
                for name, place in places.items():
                    yield name, file.get_slice(name), int(place["start"]), list(place["shape"])
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, Unreadable) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
