"""What runs inside vLLM's workers: a backend for vLLM's weight transfer, and a watch over the process that opened it.

vLLM imports this module in each worker, in whichever process that lives, because `Extension` is mixed into its worker
class (`worker_extension_cls`); the import makes the backend known there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory

from actfirst.engines.vllm.core import BACKEND
from actfirst.engines.weight_group import Entry, WeightGroup

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Nothing:
    """What both sides agree on before the first update."""


@dataclass(frozen=True, slots=True)
class NewWeights:
    """Tensors of the worker's own process, a safetensors file on its machine, or what it has received itself."""

    tensors: list[tuple[str, torch.Tensor]] | None = None
    path: str | None = None
    received: int | None = None


class HandOver(WeightTransferEngine):  # type: ignore[misc]  # vLLM's classes are not looked at
    """Weights that are handed over on one machine. vLLM's own backends (NCCL, CUDA IPC) all need GPUs."""

    init_info_cls = Nothing
    update_info_cls = NewWeights

    def init_transfer_engine(self, init_info: Nothing) -> None:
        """There is nothing to connect."""

    def start_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """As in vLLM, but without an accelerator there is none to wait for (vLLM's would fail)."""
        import torch

        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: NewWeights) -> None:
        if update_info.received is not None:
            self.model.load_weights(iter(_STAGED.pop(update_info.received).items()))
        elif update_info.path is None:
            self.model.load_weights(update_info.tensors)
        else:
            self.model.load_weights(_read(update_info.path))

    def finish_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)
        repack_head(self.model)

    def shutdown(self) -> None:
        """There is nothing to disconnect."""


WeightTransferEngineFactory.register_engine(BACKEND, HandOver)


_STAGED: dict[int, dict[str, torch.Tensor]] = {}
"""Weights that this worker has received and not installed, by version."""


class Extension:
    """Methods for `collective_rpc`."""

    _group: WeightGroup | None = None
    _work: Future[None] | None = None

    def begin(self, method: str, *arguments: Any) -> None:
        """Begin to join a group or to receive weights, in a thread: steps go on meanwhile."""
        work = self._work = Future[None]()
        works: dict[str, Callable[..., None]] = {"join": self._join, "receive": self._receive}

        def run() -> None:
            try:
                works[method](*arguments)
            except Exception as error:
                work.set_exception(error)
            else:
                work.set_result(None)

        threading.Thread(target=run, name="weights", daemon=True).start()

    def outcome(self) -> str | None:
        """What became of it: None while it is under way, nothing where it went well, and else the reason."""
        if self._work is None or not self._work.done():
            return None
        error = self._work.exception()
        return f"{type(error).__name__}: {error}" if error is not None else ""

    def _join(self, address: str, rank: int, size: int) -> None:
        worker: Any = self
        self._group = WeightGroup(
            address, rank + worker.vllm_config.parallel_config.rank, size, str(worker.device)
        )

    def _receive(self, entries: list[tuple[str, tuple[int, ...]]], dtype: str, version: int) -> None:
        if self._group is None:
            raise RuntimeError("a broadcast began before the worker had joined its group")
        try:
            expected = [Entry(name, tuple(shape)) for name, shape in entries]
            received = self._group.receive(expected, dtype)
        except Exception as error:
            self._group.fail(f"{type(error).__name__}: {error}")  # else the sender would wait for this one
            raise
        for older in sorted(_STAGED)[:-1]:  # the swap to the one before may begin only now
            del _STAGED[older]
        _STAGED[version] = received

    def end_with(self, pid: int) -> None:
        """End this process when that one is gone: killed, it could not say goodbye, and the GPU would stay taken."""
        threading.Thread(target=_end_with, args=(pid,), name="end-with-parent", daemon=True).start()


def _end_with(pid: int) -> None:
    import psutil

    try:
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(1.0)
    except psutil.NoSuchProcess:
        pass
    os._exit(1)


def _read(path: str) -> Iterable[tuple[str, torch.Tensor]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118 (it is no mapping)
            yield name, tensors.get_tensor(name)


def repack_head(model: Any) -> None:
    """On a CPU, pack the output matrix again.

    There vLLM computes with a packed copy of it, made when the model is loaded. With tied embeddings an update does
    not renew the copy, and vLLM says so in a warning only: every log-prob would be wrong from then on.
    """
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    if model.config.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight
    dispatch_cpu_unquantized_gemm(model.lm_head, remove_weight=False)
