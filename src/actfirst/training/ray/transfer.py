"""Weights on their way from the learner to engines, in the precision in which engines compute.

Two ways. Through the object store: numpy arrays, because Ray hands them to a process of the same machine without a
copy. By broadcast: a process group of the learner's first rank and all engines, over gloo on CPUs and NCCL on GPUs.
"""

from __future__ import annotations

import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from actfirst.errors import EngineError

Array: TypeAlias = NDArray[Any]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_PARCEL_BYTES = 256 * 1024**2
_PATIENCE = timedelta(seconds=120)
_GLANCE = 0.05  # seconds between looks at what the members say
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Packed:
    """A tensor as an array; numpy has no bfloat16, so its bits travel as integers."""

    array: Array
    dtype: str


Parcel: TypeAlias = dict[str, Packed]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a receiver of a broadcast has to know before a tensor arrives."""

    name: str
    shape: tuple[int, ...]


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
            for _, tensor in weights:
                if stopped.is_set():
                    return
                self._group.broadcast(tensor.detach().to(self._device, DTYPES[dtype]).contiguous(), 0).wait()
            self._synchronize()

        self._watched(work)

    def receive(self, entries: Iterable[Entry], dtype: str) -> dict[str, Tensor]:
        received: dict[str, Tensor] = {}

        def work(stopped: threading.Event) -> None:
            for entry in entries:
                if stopped.is_set():
                    return
                tensor = torch.empty(entry.shape, dtype=DTYPES[dtype], device=self._device)
                self._group.broadcast(tensor, 0).wait()
                received[entry.name] = tensor
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
