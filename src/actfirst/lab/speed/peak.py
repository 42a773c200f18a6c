"""The most memory that a learner's forward and backward pass holds at a time, counted on tensors without contents.

What is there before (weights) and what is made on the way (copies, activations, logits, gradients) is counted from the
moment it is made to the moment that nobody holds it any more. Allocators round, and kernels have buffers of their own:
neither is counted.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from actfirst.config.sections import LearnerSection
from actfirst.lab.speed.budget import Work, unreal_pass
from actfirst.models.shapes import ModelShape


def peak(shape: ModelShape, settings: LearnerSection, work: Work) -> int:
    """Bytes of one process, weights and gradients included, the optimiser not."""
    held = Held()
    unreal_pass(shape, settings, work, held)
    return held.most


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes that tensors hold while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.most = 0
        self._known = WeakIdKeyDictionary()

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._known:
            return
        size = self._known[storage] = storage.nbytes()
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._freed, size)

    def _freed(self, size: int) -> None:
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            if isinstance(value, Tensor):
                self.add(value)
        return result
