"""Keys and values of prompt prefixes that were computed before, in a bounded pool of blocks (least recently
used goes first).

A block's key is a digest of all tokens up to its end, so equal keys mean equal prefixes. Blocks are copied into
a slot and out of it: nothing is shared between sequences, so nothing has to be counted or pinned.
Fast and full prompts of one turn agree up to the current observation: this computes that part once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import torch

from actfirst.engines.embedded.kv_cache import KVCache

BLOCK = 16  # tokens


def block_keys(ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[bytes, ...]:
    """One key for each full block of `ids`, each a digest of everything up to the block's end."""
    data, size, digest = ids.tobytes(), BLOCK * ids.itemsize, b""
    keys = []
    for start in range(0, len(data) - size + 1, size):
        digest = blake2b(data[start : start + size], key=digest, digest_size=16).digest()
        keys.append(digest)
    return tuple(keys)


class PrefixCache:
    """A pool of at most `capacity` tokens. Everything in it belongs to one set of weights: `clear` when they
    change."""

    def __init__(self, cache: KVCache, capacity: int) -> None:
        self._cache = cache
        self._max_blocks = capacity // BLOCK
        self._index: OrderedDict[bytes, int] = OrderedDict()
        self._free: list[int] = []
        c = cache.config
        self._keys = cache.keys.new_empty(c.layers, 0, c.kv_heads, c.head_dim, BLOCK)
        self._values = cache.values.new_empty(c.layers, 0, c.kv_heads, BLOCK, c.head_dim)

    def clear(self) -> None:
        self._free.extend(self._index.values())
        self._index.clear()

    def tensors(self) -> list[torch.Tensor]:
        return [self._keys, self._values]

    def match(self, keys: Sequence[bytes]) -> int:
        """How many of `keys`, from the first on, are in the pool."""
        return next((i for i, key in enumerate(keys) if key not in self._index), len(keys))

    def load(self, keys: Sequence[bytes], slot: int) -> None:
        """Copy the blocks of `keys` (all present) to the beginning of a slot."""
        self._touch(keys)
        cache, c, tokens = self._cache, self._cache.config, len(keys) * BLOCK
        index = torch.tensor([self._index[key] for key in keys])
        rows = cache.rows(slot)
        keys_LNKDB = self._keys.index_select(1, index)
        values_LNKBD = self._values.index_select(1, index)
        cache.keys[:, rows, :, :tokens].view(c.layers, c.kv_heads, c.head_dim, len(keys), BLOCK).copy_(
            keys_LNKDB.permute(0, 2, 3, 1, 4)
        )
        cache.values[:, rows, :tokens].view(c.layers, c.kv_heads, len(keys), BLOCK, c.head_dim).copy_(
            values_LNKBD.permute(0, 2, 1, 3, 4)
        )

    def store(self, keys: Sequence[bytes], first: int, slot: int) -> None:
        """Copy blocks [first, len(keys)) of a slot into the pool, and mark all of `keys` as used."""
        last = min(len(keys), self._max_blocks)
        new = [i for i in range(first, last) if keys[i] not in self._index]
        if new:  # nearly always one run; a block inside it that is there already is written again
            self._store_run(keys, new[0], new[-1] + 1, slot)
        self._touch(keys[:last])

    def _store_run(self, keys: Sequence[bytes], start: int, stop: int, slot: int) -> None:
        cache, c, count = self._cache, self._cache.config, stop - start
        places = []
        for key in keys[start:stop]:
            place = self._index.pop(key, None)
            place = self._take() if place is None else place
            self._index[key] = place
            places.append(place)
        index = torch.tensor(places)
        span, rows = slice(start * BLOCK, stop * BLOCK), cache.rows(slot)
        keys_LKDNB = cache.keys[:, rows, :, span].view(c.layers, c.kv_heads, c.head_dim, count, BLOCK)
        values_LKNBD = cache.values[:, rows, span].view(c.layers, c.kv_heads, count, BLOCK, c.head_dim)
        self._keys.index_copy_(1, index, keys_LKDNB.permute(0, 3, 1, 2, 4))
        self._values.index_copy_(1, index, values_LKNBD.permute(0, 2, 1, 3, 4))

    def _take(self) -> int:
        """A free place: an unused one, a new one while the pool may grow, else the least recently used one."""
        if not self._free and self._keys.shape[1] < self._max_blocks:
            self._grow()
        return self._free.pop() if self._free else self._index.popitem(last=False)[1]

    def _grow(self) -> None:
        old = self._keys.shape[1]
        size = min(self._max_blocks, max(64, 2 * old))
        keys = self._keys.new_empty(self._keys.shape[0], size, *self._keys.shape[2:])
        values = self._values.new_empty(self._values.shape[0], size, *self._values.shape[2:])
        keys[:, :old], values[:, :old] = self._keys, self._values
        self._keys, self._values = keys, values
        self._free.extend(range(size - 1, old - 1, -1))

    def _touch(self, keys: Sequence[bytes]) -> None:
        """Mark as recently used, the first block last: without it the later ones could never be found."""
        for key in reversed(keys):
            if key in self._index:
                self._index.move_to_end(key)
