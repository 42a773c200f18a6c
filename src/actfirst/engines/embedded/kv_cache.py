"""Keys and values of the running sequences, one slot for each, as dense tensors over all layers.

Sequence i of the scheduler's list lives in slot i, so a decode step reads the contiguous range [0, B). A slot
is kv_heads consecutive rows. Keys are stored [head_dim, length] and values [length, head_dim]: both products
of a decode step then read memory in the order in which it lies (two to three times faster than keys by rows).
Memory follows use: slots and length grow when a step needs more, and never shrink.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from actfirst.models.shapes import ModelShape

Parked = tuple[torch.Tensor, torch.Tensor]  # keys and values of one sequence outside of its slot

LENGTH_STEP = 32  # lengths are multiples of this, so that views of a decode step live for many steps


class KVCache:
    """`keys` is [layers, slots * kv_heads, head_dim, length], `values` [layers, slots * kv_heads, length,
    head_dim]. Tensors are replaced when they grow: whoever keeps views compares `generation`."""

    def __init__(self, config: ModelShape, dtype: torch.dtype, *, max_slots: int, max_length: int) -> None:
        self.config = config
        self.max_slots = max_slots
        self.max_length = -(-max_length // LENGTH_STEP) * LENGTH_STEP
        self.slots = 0
        self.length = 0
        self.generation = 0
        # Zeros, not garbage: masked positions are multiplied by 0, and 0 * nan would be nan.
        self.keys = torch.zeros(config.layers, 0, config.head_dim, 0, dtype=dtype)
        self.values = torch.zeros(config.layers, 0, 0, config.head_dim, dtype=dtype)
        self._keep_views()

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` sequences of `length` tokens; grows by half at least, so copies stay rare."""
        if slots <= self.slots and length <= self.length:
            return
        old_rows, old_length = self.slots * self.config.kv_heads, self.length
        if slots > self.slots:
            self.slots = min(self.max_slots, max(slots, 2 * self.slots, 4))
        if length > self.length:
            wanted = max(length, self.length * 3 // 2)
            self.length = min(self.max_length, -(-wanted // LENGTH_STEP) * LENGTH_STEP)
        rows, c = self.slots * self.config.kv_heads, self.config
        keys = self.keys.new_zeros(c.layers, rows, c.head_dim, self.length)
        values = self.values.new_zeros(c.layers, rows, self.length, c.head_dim)
        keys[:, :old_rows, :, :old_length] = self.keys
        values[:, :old_rows, :old_length] = self.values
        self.keys, self.values = keys, values
        self.generation += 1
        self._keep_views()

    def _keep_views(self) -> None:
        """What every decode batch needs, made once: layers, flat layers, and where rows and elements begin."""
        rows, head_dim = self.keys.shape[1], self.config.head_dim
        self.layer_keys, self.layer_values = list(self.keys.unbind()), list(self.values.unbind())
        self.flat_keys = [layer.view(-1) for layer in self.layer_keys]
        self.flat_values = [layer.view(-1, head_dim) for layer in self.layer_values]
        self.value_start = torch.arange(rows) * self.length
        self.key_start = torch.arange(rows * head_dim).view(rows, head_dim) * self.length
        self.places = torch.arange(self.length)

    def clear(self, kept: Sequence[int]) -> None:
        """Forget all but the first `kept[i]` positions of slot i: weights that gave nan must not leave it behind in
        places that are masked."""
        for slot in range(self.slots):
            rows, length = self.rows(slot), kept[slot] if slot < len(kept) else 0
            self.keys[:, rows, :, length:].zero_()
            self.values[:, rows, length:].zero_()

    @property
    def plain(self) -> bool:
        """Whether numpy can read it: float32 in main memory."""
        return self.keys.dtype is torch.float32 and self.keys.device.type == "cpu"

    def rows(self, slot: int) -> slice:
        return slice(slot * self.config.kv_heads, (slot + 1) * self.config.kv_heads)

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one slot over another."""
        a, b = self.rows(source), self.rows(target)
        self.keys[:, b, :, :length] = self.keys[:, a, :, :length]
        self.values[:, b, :length] = self.values[:, a, :length]

    def swap(self, first: int, second: int, length: int) -> None:
        """Exchange the first `length` positions of two slots."""
        a, b = self.rows(first), self.rows(second)
        keys, values = self.keys[:, a, :, :length].clone(), self.values[:, a, :length].clone()
        self.move(second, first, length)
        self.keys[:, b, :, :length] = keys
        self.values[:, b, :length] = values

    def park(self, slot: int, length: int) -> Parked:
        """A copy of the first `length` positions of a slot."""
        rows = self.rows(slot)
        return self.keys[:, rows, :, :length].clone(), self.values[:, rows, :length].clone()

    def restore(self, parked: Parked, slot: int) -> None:
        keys, values = parked
        rows, length = self.rows(slot), keys.shape[-1]
        self.keys[:, rows, :, :length] = keys
        self.values[:, rows, :length] = values
