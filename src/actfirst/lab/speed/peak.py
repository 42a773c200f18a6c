"""The most memory that a learner's forward and backward pass holds at a time, counted on tensors without contents.

What is there before (weights) and what is made on the way (copies, activations, logits, gradients) is counted from the
moment it is made to the moment that nobody holds it any more. Allocators round, and kernels have buffers of their own:
neither is counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Self
from unittest.mock import patch

import torch.distributed as dist
from torch import Tensor, UntypedStorage
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from actfirst.config.sections import LearnerSection
from actfirst.lab.speed.budget import EmptyLearner, Work, unreal_pass
from actfirst.learning.sharded import ShardedLearner
from actfirst.models.shapes import ModelShape


def peak(shape: ModelShape, settings: LearnerSection, work: Work, ranks: int = 1, copies: int = 1) -> int:
    """Bytes of one process, weights and gradients included, the optimiser not. Of several ranks it is the first: the
    others only answer, without contents."""
    held = Held()
    if ranks == 1:
        unreal_pass(shape, settings, work, held)
        return held.most
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        unreal_pass(shape, settings, work, held, partial(_EmptyRank, copies=copies))
    finally:
        dist.destroy_process_group()
    return held.most


class _EmptyRank(ShardedLearner, EmptyLearner):
    """One rank among others that are not there."""

    def _group_beside(self) -> Any:
        return None

    def _mesh(self, device: str) -> Any:
        with unset_fake_temporarily():  # its numbers are looked at
            return super()._mesh(device)

    def _place(self) -> None:
        ShardedLearner._place(self)
        EmptyLearner._place(self)


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes that tensors hold while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.most = 0
        self._known = WeakIdKeyDictionary()
        self._patched = patch.object(UntypedStorage, "resize_", self._resizing(UntypedStorage.resize_))

    def __enter__(self) -> Self:
        self._patched.start()  # FSDP lets go of what it has gathered without any operation
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._patched.stop()

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._known:
            return
        size = self._known[storage] = [0]
        self._has(size, storage.nbytes())
        weakref.finalize(storage, self._has, size, 0)

    def _has(self, size: list[int], now: int) -> None:
        self.now += now - size[0]
        self.most = max(self.most, self.now)
        size[0] = now

    def _resizing(self, resize: Callable[[UntypedStorage, int], Any]) -> Callable[[UntypedStorage, int], Any]:
        def resized(storage: UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            if storage in self._known:
                self._has(self._known[storage], size)
            return result

        return resized

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            if isinstance(value, Tensor):
                self.add(value)
        return result
