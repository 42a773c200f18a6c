"""`actfirst bench decoding`: attention of one decode step, by torch at once and by numpy in groups, taking turns.

Random keys and values of sequences of one length. What is compared are the two forms of `DecodeBatch.attend`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from actfirst.engines.embedded.decoding import DecodeBatch
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.lab.spread import Spread, Told, ratios
from actfirst.models.shapes import ModelShape

_HEAD_DIM = 64
_CALLS = 20  # in each round, of each form


@dataclass(frozen=True, slots=True)
class Point:
    """So many sequences of a length, with `queries` for each: milliseconds of processor time, round by round."""

    sequences: int
    length: int
    queries: int
    torch: list[float]
    numpy: list[float]

    def row(self) -> dict[str, str]:
        return {
            "sequences": str(self.sequences),
            "tokens each": f"{self.length:,}",
            "queries each": str(self.queries),
            "torch (ms)": Spread.of(self.torch).text(3),
            "numpy (ms)": Spread.of(self.numpy).text(3),
            "times as fast": ratios(self.torch, self.numpy).text(),
        }


def measure(
    sequences: Sequence[int], lengths: Sequence[int], queries: int, rounds: int, told: Told
) -> list[Point]:
    """Every combination, on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        grid = [(count, length) for count in sequences for length in lengths]
        points = []
        for place, (count, length) in enumerate(grid, start=1):
            points.append(_point(count, length, queries, rounds))
            told(place, len(grid), f"{count} sequences of {length}")
    finally:
        torch.set_num_threads(before)
    return points


def to_json(points: Sequence[Point]) -> dict[str, Any]:
    return {"points": [asdict(point) for point in points]}


def _point(count: int, length: int, queries: int, rounds: int) -> Point:
    shape = ModelShape(
        64, _HEAD_DIM, _HEAD_DIM, 1, queries, 1, _HEAD_DIM, tied_embeddings=True, max_positions=length
    )
    cache = KVCache(shape, torch.float32, max_slots=count, max_length=length)
    cache.reserve(count, length)
    cache.keys.normal_()
    cache.values.normal_()
    asked = torch.randn(count, queries, _HEAD_DIM)
    by_numpy = DecodeBatch(cache, [length - 1] * count)
    by_torch = DecodeBatch(cache, [length - 1] * count, small=0)
    point = Point(count, length, queries, [], [])
    for _ in range(rounds):
        point.torch.append(_milliseconds(by_torch, asked))
        point.numpy.append(_milliseconds(by_numpy, asked))
    return point


def _milliseconds(batch: DecodeBatch, asked: torch.Tensor) -> float:
    batch.attend(0, asked)  # so that memory is at hand
    start = time.process_time()
    for _ in range(_CALLS):
        batch.attend(0, asked)
    return (time.process_time() - start) / _CALLS * 1000
