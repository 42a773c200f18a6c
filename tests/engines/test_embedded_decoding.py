"""Attention of decoding sequences: in groups by numpy or at once by torch, each sequence has the same result."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from actfirst.engines.embedded.decoding import GROUP, SMALL, DecodeBatch, DraftBatch
from actfirst.engines.embedded.kv_cache import LENGTH_STEP, KVCache
from actfirst.models.shapes import ModelShape

SHAPE = ModelShape(64, 32, 48, 2, 4, 2, 8, tied_embeddings=True, max_positions=512)


def filled(dtype: torch.dtype = torch.float32) -> KVCache:
    cache = KVCache(SHAPE, dtype, max_slots=3 * GROUP, max_length=400)
    cache.reserve(3 * GROUP, 400)
    generator = torch.Generator().manual_seed(0)
    for part in (cache.keys, cache.values):
        part.copy_(torch.randn(part.shape, generator=generator))
    return cache


def alone(cache: KVCache, layer: int, q_GD: Tensor, row: int, position: int) -> Tensor:
    keys, values = cache.keys[layer, row, :, : position + 1], cache.values[layer, row, : position + 1]
    return torch.softmax(q_GD.double() @ keys.double(), -1) @ values.double()


def test_sequences_of_all_lengths_attend_to_their_own_past_and_no_further() -> None:
    cache, lengths = filled(), [1 + 7 * n for n in range(2 * GROUP + 5)]
    batch = DecodeBatch(cache, [length - 1 for length in lengths])
    queries = torch.randn(len(lengths) * SHAPE.kv_heads, SHAPE.group, SHAPE.head_dim)
    for step in range(steps := batch.steps_left + 1):
        for layer in range(SHAPE.layers):
            attended = batch.attend(layer, queries)
            for row in range(0, len(queries), 5):
                position = lengths[row // SHAPE.kv_heads] - 1 + step
                expected = alone(cache, layer, queries[row], row, position)
                torch.testing.assert_close(attended[row].double(), expected, atol=1e-5, rtol=1e-5)
        if step + 1 < steps:
            batch.advance()


def test_drafts_attend_to_what_is_before_each_of_their_tokens() -> None:
    cache = filled()
    positions, widths = [3 + 9 * n for n in range(GROUP + 3)], [1 + n % 4 for n in range(GROUP + 3)]
    queries = torch.randn(sum(widths) * SHAPE.kv_heads, SHAPE.group, SHAPE.head_dim)
    attended = DraftBatch(cache, positions, widths).attend(1, queries)
    at = 0
    for sequence, (position, width) in enumerate(zip(positions, widths)):
        for token in range(width):
            for head in range(SHAPE.kv_heads):
                row = sequence * SHAPE.kv_heads + head
                expected = alone(cache, 1, queries[at], row, position + token)
                torch.testing.assert_close(attended[at].double(), expected, atol=1e-5, rtol=1e-5)
                at += 1


def test_a_group_reads_no_further_than_its_longest_sequence_needs() -> None:
    lengths = [10] * GROUP + [300] * 2
    batch = DecodeBatch(filled(), lengths)
    short, long = batch._groups
    assert short.scores.shape[-1] == LENGTH_STEP
    assert long.scores.shape[-1] == batch.length >= 301


@pytest.mark.parametrize("large", [False, True])
def test_other_precisions_and_large_products_are_left_to_torch(*, large: bool) -> None:
    cache = filled(torch.float32 if large else torch.bfloat16)
    batch = DecodeBatch(cache, [40, 3], small=0 if large else SMALL)
    assert not batch._groups
    queries = torch.randn(2 * SHAPE.kv_heads, SHAPE.group, SHAPE.head_dim, dtype=cache.keys.dtype)
    expected = alone(cache, 0, queries[0], 0, 40)
    torch.testing.assert_close(batch.attend(0, queries)[0].double(), expected, atol=3e-2, rtol=3e-2)
