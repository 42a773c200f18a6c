"""Attention of the decoding sequences: where they stand, and what their newest tokens attend to.

A decode step has a handful of queries for each sequence and reads all of its keys and values once. torch hands such
products to a library that first copies the matrix into another layout; numpy's does not, for products as small as
these, and is faster (`actfirst bench decoding`). So a float32 batch on a processor is attended to by
numpy, a few neighbouring sequences at a time, each group only as far as its longest sequence goes; everything else by
torch, all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from actfirst.engines.embedded.kv_cache import LENGTH_STEP, KVCache

GROUP = 16  # neighbouring sequences that are attended to together
SMALL = 2**20  # multiplications of one sequence's product up to which numpy is used


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring rows of a decode batch, and views that reach as far as the longest of them."""

    rows: slice
    mask: Tensor
    keys: list[npt.NDArray[np.float32]]
    values: list[npt.NDArray[np.float32]]
    scores: Tensor  # room for the products of one layer


class DecodeBatch:
    """Where the decoding sequences (slots [0, B)) stand: built when the batch changes, else moved on by one."""

    def __init__(self, cache: KVCache, positions: list[int], small: int = SMALL) -> None:
        kv_heads = cache.config.kv_heads
        self.tokens = self.size = len(positions)
        self.generation = cache.generation
        rows = self.size * kv_heads
        reach = self._reach(cache, [position + 1 for position in positions])
        pos = torch.tensor(positions)
        self.pos_N = pos.repeat_interleave(kv_heads) if kv_heads > 1 else pos
        pos_N1 = self.pos_N.unsqueeze(1)
        self.value_index = cache.value_start[:rows] + self.pos_N
        self.key_index = cache.key_start[:rows] + pos_N1
        mask_NL = torch.zeros(rows, self.length, dtype=cache.keys.dtype)
        self.mask = mask_NL.masked_fill_(cache.places[: self.length] > pos_N1, float("-inf")).unsqueeze(1)
        self._take_views(cache, reach, cache.config.group, small)

    @property
    def query_positions(self) -> Tensor:
        """The position of each query as `spread` lays them out, [rows, queries or 1, 1]."""
        return self.pos_N.view(-1, 1, 1)

    def advance(self) -> None:
        """Every sequence has one token more."""
        self.steps_left -= 1
        self.pos_N.add_(1)
        self.key_index.add_(1)
        self.value_index.add_(1)
        self.mask.scatter_(2, self.pos_N.view(-1, 1, 1), 0.0)

    def attend(self, layer: int, q_NGD: Tensor) -> Tensor:
        """What each query attends to, in rows as the queries."""
        queries = self.spread(q_NGD)
        if not self._groups:
            scores = torch.baddbmm(self.mask, queries, self.keys[layer])
            return self.gather(torch.bmm(torch.softmax(scores, -1), self.values[layer]))
        attended = torch.empty(queries.shape, dtype=queries.dtype)
        asked, told = queries.numpy(), attended.numpy()
        for group in self._groups:
            np.matmul(asked[group.rows], group.keys[layer], out=group.scores.numpy())
            weights = torch.softmax(group.scores.add_(group.mask), -1)
            np.matmul(weights.numpy(), group.values[layer], out=told[group.rows])
        return self.gather(attended)

    def spread(self, rows_NGD: Tensor) -> Tensor:
        """The queries as the batched product wants them: all queries of one slot side by side."""
        return rows_NGD

    def gather(self, attended: Tensor) -> Tensor:
        """From that layout back to one row for each (token, key-value head)."""
        return attended

    def _reach(self, cache: KVCache, lengths: list[int]) -> list[int]:
        """How far the views of each group of sequences go: rounded up, so that they serve many steps; what is beyond
        a sequence is masked. Sets `length`, the longest of them, and how many steps the views serve."""
        longest = [max(lengths[first : first + GROUP]) for first in range(0, len(lengths), GROUP)]
        reach = [min(cache.length, -(-length // LENGTH_STEP) * LENGTH_STEP) for length in longest]
        self.length = max(reach)
        self.steps_left = min(far - length for far, length in zip(reach, longest))
        return reach

    def _take_views(self, cache: KVCache, reach: list[int], queries: int, small: int) -> None:
        kv_heads, head_dim = cache.config.kv_heads, cache.config.head_dim
        rows = self.size * kv_heads
        self.keys = [layer[:rows, :, : self.length] for layer in cache.layer_keys]
        self.values = [layer[:rows, : self.length] for layer in cache.layer_values]
        self._groups: list[_Group] = []
        if not cache.plain or queries * head_dim * self.length > small:
            return
        for number, length in enumerate(reach):
            first = number * GROUP * kv_heads
            part = slice(first, min(rows, first + GROUP * kv_heads))
            self._groups.append(
                _Group(
                    part,
                    self.mask[part, :, :length],
                    [keys[part, :, :length].numpy() for keys in self.keys],
                    [values[part, :length].numpy() for values in self.values],
                    torch.empty(part.stop - part.start, queries, length),
                )
            )


class DraftBatch(DecodeBatch):
    """A decode batch in which sequences have several tokens: the newest one and the draft after it.

    Each sequence has W places, W being the largest width; the places after its own tokens repeat its last one
    and are not read. The keys and values are read once for all places, which is what a decode step spends its
    time on, so a draft token costs far less than a step.
    """

    def __init__(self, cache: KVCache, positions: list[int], widths: list[int]) -> None:
        c, size, widest = cache.config, len(positions), max(widths)
        self.size, self.tokens = size, sum(widths)
        self.generation = cache.generation
        reach = self._reach(cache, [position + width for position, width in zip(positions, widths)])
        self.steps_left = 0  # the next step has other widths
        width_B, pos_B, head_K = np.array(widths), np.array(positions), np.arange(c.kv_heads)
        sequence_T = np.repeat(np.arange(size), width_B)
        first_B = np.cumsum(width_B) - width_B
        offset_T = np.arange(self.tokens) - first_B[sequence_T]
        offset_BW = np.minimum(np.arange(widest), width_B[:, None] - 1)
        slot_N = (sequence_T[:, None] * c.kv_heads + head_K).reshape(-1)
        token_BW = first_B[:, None] + offset_BW
        source = (token_BW[:, None, :] * c.kv_heads + head_K[:, None]).reshape(-1)
        place_N = slot_N * widest + np.repeat(offset_T, c.kv_heads)
        pos_N = np.repeat(pos_B[sequence_T] + offset_T, c.kv_heads)

        slots, self.pos_N = torch.as_tensor(slot_N), torch.as_tensor(pos_N)
        self._source, self._place_N, self._widest = torch.as_tensor(source), torch.as_tensor(place_N), widest
        self.value_index = cache.value_start[slots] + self.pos_N
        self.key_index = cache.key_start[slots] + self.pos_N.unsqueeze(1)
        pos_BW = torch.as_tensor(pos_B[:, None] + offset_BW)
        wide = pos_BW[:, None, :, None].expand(-1, c.kv_heads, -1, c.group)
        self._query_positions = wide.reshape(size * c.kv_heads, -1, 1)
        self.mask = self._mask(cache, pos_BW)
        self._take_views(cache, reach, widest * c.group, SMALL)

    @property
    def query_positions(self) -> Tensor:
        return self._query_positions

    def spread(self, rows_NGD: Tensor) -> Tensor:
        _, group, head_dim = rows_NGD.shape
        return rows_NGD.index_select(0, self._source).view(-1, self._widest * group, head_dim)

    def gather(self, attended: Tensor) -> Tensor:
        group = attended.shape[1] // self._widest
        return attended.view(-1, group, attended.shape[2]).index_select(0, self._place_N)

    def _mask(self, cache: KVCache, pos_BW: Tensor) -> Tensor:
        """0 up to the position of each place and -inf beyond, for all its queries: [B * kv_heads, W * G, L]."""
        c, shape = cache.config, (*pos_BW.shape, self.length)
        mask_BWL = torch.zeros(shape, dtype=cache.keys.dtype)
        mask_BWL.masked_fill_(cache.places[: self.length] > pos_BW.unsqueeze(2), float("-inf"))
        wide = mask_BWL[:, None, :, None].expand(-1, c.kv_heads, -1, c.group, -1)
        return wide.reshape(-1, self._widest * c.group, self.length)
