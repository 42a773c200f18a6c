"""The vLLM engine: opens vLLM over a checkpoint folder, and says what its requests are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.stepped import IdArray, Limits, Settings, SteppedEngine, of_student
from actfirst.engines.stepping import SteppingLoop
from actfirst.engines.vllm.adapters import expected_adapters
from actfirst.engines.vllm.admission import Admission, Request
from actfirst.engines.vllm.core import VllmCore, on_cpu
from actfirst.engines.vllm.work import Generating, Received, Scoring
from actfirst.engines.weight_group import Entry
from actfirst.errors import EngineError
from actfirst.models.folder import read_config
from actfirst.models.shapes import HEAD

_GLANCE = 0.02  # seconds between looks at what workers do beside their steps


class VllmEngine(SteppedEngine[Request]):
    """Drafts of a request are ignored: vLLM takes drafts from its own methods only."""

    def __init__(self, folder: Path, settings: Settings, adapter_rank: int = 0) -> None:
        """From a transformers checkpoint folder. With `adapter_rank`, its weights stay, and `load_weights` takes
        adapters of that rank alone: of every projection, scaled already."""
        model = empty_model(folder)
        adapters = expected_adapters(model, adapter_rank) if adapter_rank else {}
        tensors = adapters or {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        if settings.device != "auto" and (settings.device == "cpu") != on_cpu():
            raise EngineError(
                f'device = "{settings.device}": the vLLM that is installed computes on '
                f'{"the CPU" if on_cpu() else "GPUs"}; set device = "auto", or install its other build'
            )
        student = of_student(settings)
        self._core = VllmCore(folder, settings, _own_process(settings), adapters)
        loop = SteppingLoop(
            Admission(self._core, settings.max_concurrency, priority=student.priority, swap=student.swap),
            name="vllm-engine",
            threads=settings.threads or torch.get_num_threads(),
        )
        tied = bool(model.config.tie_word_embeddings)
        super().__init__(loop, Limits(self._core.max_positions, self._core.vocab_size, tensors, tied))

    def _generating(self, prompt: IdArray, sampling: Sampling, priority: Priority) -> Request:
        work = Generating(tuple(prompt.tolist()), sampling, priority)
        return Request(work, asyncio.get_running_loop().create_future())

    def _scoring(self, ids: IdArray, begin: int, alternatives: int) -> Request:
        return Request(Scoring(tuple(ids.tolist()), begin), asyncio.get_running_loop().create_future())


class ReceivingVllmEngine(VllmEngine):
    """As `engines.base.Receiving`: vLLM's workers take whole weights from broadcasts."""

    async def join(self, address: str, rank: int, size: int) -> None:
        await self._workers("join", address, rank, size)

    async def receive(self, entries: Sequence[Entry], dtype: str, version: int) -> None:
        given = {entry.name: entry.shape for entry in entries}
        expected = dict(self._limits.tensors)
        if self._limits.tied_embeddings and HEAD not in given:
            expected.pop(HEAD, None)
        if given != expected:
            raise EngineError("the weights that a broadcast announces are not those of the model")
        await self._workers("receive", [(entry.name, entry.shape) for entry in entries], dtype, version)

    async def load_received(self, version: int) -> None:
        await self._loop.load(Received(version), version)

    async def _workers(self, method: str, *arguments: object) -> None:
        """Have all workers do something beside their steps, and wait until it is done."""
        await self._loop.call(lambda: self._core.begin(method, *arguments))
        while not await self._loop.call(self._core.done):  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(_GLANCE)


def empty_model(folder: Path) -> Any:
    """The model of a folder without its weights.

    Given weights are compared with its tensors: vLLM would load what fits and only warn of the rest.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    read_config(folder)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))


def _own_process(settings: Settings) -> bool:
    chosen, parallel = settings.vllm.process, settings.vllm.tensor_parallel > 1
    own = chosen == "own" or (chosen == "auto" and (parallel or not on_cpu()))
    if parallel and not own:
        raise EngineError('tensor parallelism needs processes of its own: set process = "own"')
    return own
