"""Weights by broadcast: a process group of the learner's first rank and of all processes that compute with them.

Over gloo on CPUs and NCCL on GPUs. Tensors travel in packs of bounded size, in the precision in which engines compute:
the sender rounds. Receivers are engines, or the workers of vLLM's own processes.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import prod
from typing import Any

import torch
from torch import Tensor

from actfirst.errors import EngineError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PACK_BYTES = 256 * 1024**2
_PATIENCE = timedelta(seconds=120)
_GLANCE = 0.05  # seconds between looks at what the members say
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a receiver of a broadcast has to know before a tensor arrives."""

    name: str
    shape: tuple[int, ...]


def packs(entries: Iterable[Entry], dtype: str) -> Iterator[list[Entry]]:
    """The tensors that travel together, in order: as many as fit, or one that does not fit alone."""
    pack: list[Entry] = []
    size = 0
    for entry in entries:
        own = prod(entry.shape) * DTYPES[dtype].itemsize
        if pack and size + own > PACK_BYTES:
            yield pack
            pack, size = [], 0
        pack.append(entry)
        size += own
    if pack:
        yield pack


class WeightGroup:
    """The process group of one broadcaster (rank 0) and its receivers. A new one is made when members change."""

    def __init__(self, address: str, rank: int, size: int, device: str) -> None:
        """Returns when all members are there. `address` is the host and port at which rank 0 listens."""
        from torch.distributed import ProcessGroupGloo, TCPStore  # type: ignore[attr-defined]  # both are there

        host, _, port = address.rpartition(":")
        self._device = torch.device(device)
        self._patience = _PATIENCE.total_seconds()
        store: Any = TCPStore(host, int(port), size, is_master=rank == 0, timeout=_PATIENCE)
        self._server = store  # it lives as long as somebody holds it
        self._hears = True
        self._store: Any = store.clone()  # a connection of its own: the group may wait on the other one
        self._group: Any
        if self._device.type == "cuda":
            from torch.distributed import ProcessGroupNCCL  # only where torch has CUDA

            options = ProcessGroupNCCL.Options()
            options._timeout = _PATIENCE
            self._group = ProcessGroupNCCL(store, rank, size, options)
        else:
            self._group = ProcessGroupGloo(store, rank, size, _PATIENCE)

    def send(self, weights: Iterable[tuple[str, Tensor]], dtype: str) -> None:
        def work(stopped: threading.Event) -> None:
            for pack in _packed(weights, self._device, dtype):
                if stopped.is_set():
                    return
                self._group.broadcast(pack, 0).wait()
            self._synchronize()

        self._watched(work)

    def receive(self, entries: Sequence[Entry], dtype: str) -> dict[str, Tensor]:
        received: dict[str, Tensor] = {}

        def work(stopped: threading.Event) -> None:
            for pack in packs(entries, dtype):
                if stopped.is_set():
                    return
                sizes = [prod(entry.shape) for entry in pack]
                flat = torch.empty(sum(sizes), dtype=DTYPES[dtype], device=self._device)
                self._group.broadcast(flat, 0).wait()
                parts = zip(pack, torch.split(flat, sizes), strict=True)
                received.update((entry.name, part.view(entry.shape)) for entry, part in parts)
            self._synchronize()

        self._watched(work)
        return received

    def fail(self, reason: str) -> None:
        """Tell all members that this one cannot go on: a collective would have them wait for it."""
        with suppress(Exception):  # rank 0 is gone, and with it the place where it would read this
            self._store.set(_FAILED, reason)

    def _said(self) -> str:
        """Why a member failed, if one said so."""
        try:
            return (
                str(self._store.get(_FAILED).decode()) if self._hears and self._store.check([_FAILED]) else ""
            )
        except Exception:  # rank 0 has ended: after its last collective, or the group itself will say so
            self._hears = False
            return ""

    def _watched(self, work: Callable[[threading.Event], None]) -> None:
        """Do collectives in a thread, and leave them when a member says that it failed, or after too long.

        A collective itself does not notice that a member never comes: NCCL waits, and so does who called it.
        """
        ended, stopped, errors = threading.Event(), threading.Event(), list[Exception]()

        def run() -> None:
            try:
                work(stopped)
            except Exception as error:
                errors.append(error)
            ended.set()

        thread = threading.Thread(target=run, name="weights", daemon=True)
        thread.start()
        deadline = time.monotonic() + self._patience
        reason = ""
        while not ended.wait(_GLANCE) and not reason:
            if said := self._said():
                reason = f"a member of the group failed: {said}"
            elif time.monotonic() > deadline:
                reason = f"a member of the group did nothing for {self._patience:g} s"
        if reason and not ended.is_set():
            stopped.set()
            with suppress(Exception):  # what is broken may say so again
                self._group.abort()
            thread.join(_GLANCE)
            raise EngineError(reason)
        if errors:
            raise errors[0]

    def _synchronize(self) -> None:
        """On a GPU `wait` only orders streams: the tensors are there, and failures known, after this."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def entries(weights: Iterable[tuple[str, Tensor]]) -> tuple[Entry, ...]:
    """The list by which receivers know what comes, in order."""
    return tuple(Entry(name, tuple(tensor.shape)) for name, tensor in weights)


def free_address(host: str) -> str:
    """A port of this machine that is free at the moment, as host:port."""
    with socket.socket() as free:
        free.bind(("", 0))
        return f"{host}:{free.getsockname()[1]}"


def _packed(weights: Iterable[tuple[str, Tensor]], device: torch.device, dtype: str) -> Iterator[Tensor]:
    """Each pack as one tensor. Weights are asked for one after the other: they may have to be gathered first."""
    flat: list[Tensor] = []
    size = 0
    for _, tensor in weights:
        own = tensor.detach().to(device, DTYPES[dtype]).reshape(-1)
        if flat and size + own.nbytes > PACK_BYTES:
            yield torch.cat(flat)
            flat, size = [], 0
        flat.append(own)
        size += own.nbytes
    if flat:
        yield torch.cat(flat)
