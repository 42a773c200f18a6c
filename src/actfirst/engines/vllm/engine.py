"""The vLLM engine behind the contract of engines/base.py: checks requests and hands them to the loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.vllm.core import CoreOptions, VllmCore, eos_ids, on_cpu
from actfirst.engines.vllm.loop import Cancel, Close, Load, Request, StepLoop
from actfirst.engines.vllm.work import Generating, Scoring, Work
from actfirst.errors import EngineError
from actfirst.records import Completion, EngineStats

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """How a vLLM engine runs; names are vLLM's where vLLM has one.

    `process` says where it computes: "same" (as this process), "own", or "auto": its own on a GPU and with tensor
    parallelism, else the same. `threads` are those of torch in the stepping thread, for the same process on a CPU.
    """

    max_concurrency: int = 64
    max_prefill_tokens: int = 4096
    prefix_caching: bool = True
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: int = 2
    version: int = 0
    enforce_eager: bool = False
    gpu_memory_utilization: float = 0.7
    kv_cache_gib: float = 0.0
    max_model_len: int = 0
    tensor_parallel: int = 1
    process: Literal["auto", "same", "own"] = "auto"


class VllmEngine:
    """Generates with and scores under one model. Close it: it owns a thread, and perhaps processes."""

    def __init__(self, folder: Path, options: VllmOptions) -> None:
        self.options = options
        self._shapes, self._tied = expected_shapes(folder)
        self._core = VllmCore(folder, _core_options(folder, options))
        self._loop = StepLoop(
            self._core,
            max_concurrency=options.max_concurrency,
            version=options.version,
            prepare=lambda: torch.set_num_threads(options.threads),
        )

    @classmethod
    def from_pretrained(cls, path: Path | str, options: VllmOptions | None = None) -> VllmEngine:
        """From a transformers checkpoint folder."""
        folder = Path(path)
        if not (folder / "config.json").is_file():
            raise EngineError(f"{folder} holds no config.json: give the folder of a transformers checkpoint")
        return cls(folder, options or VllmOptions())

    @property
    def version(self) -> int:
        return self._loop.version

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        """`sampling.draft` is ignored: vLLM takes drafts from its own methods only."""
        prompt = self._checked_ids(prompt_ids, sampling.max_tokens)
        _check_sampling(sampling)
        completion: Completion = await self._result(Generating(prompt, sampling, priority))
        return completion

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        if not prompt_ids:
            raise EngineError("cannot score after an empty prompt: the first token would have no context")
        if not token_ids:
            return ()
        ids = self._checked_ids([*prompt_ids, *token_ids], 0)
        logprobs: tuple[float, ...] = await self._result(Scoring(ids, len(prompt_ids)))
        return logprobs

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Install new weights when running requests have ended. They must not change until this returns."""
        check_weights(self._shapes, self._tied, weights)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop.send(Load(weights, version, future))
        await future

    def stats(self) -> EngineStats:
        return self._loop.stats()

    async def close(self) -> None:
        """End the thread and vLLM; what is pending fails. Closing twice is fine."""
        self._loop.tell(Close())
        while self._loop.thread.is_alive():  # noqa: ASYNC110 (a thread cannot be awaited)
            await asyncio.sleep(0.002)

    async def _result(self, work: Work) -> Any:
        request = Request(work, asyncio.get_running_loop().create_future())
        self._loop.send(request)
        try:
            return await request.future
        except asyncio.CancelledError:
            self._loop.tell(Cancel(request))
            raise

    def _checked_ids(self, ids: Sequence[int], max_tokens: int) -> tuple[int, ...]:
        if not ids:
            raise EngineError("the prompt is empty: give at least one token")
        positions, vocabulary = self._core.max_positions, self._core.vocab_size
        if len(ids) + max_tokens > positions:
            raise EngineError(
                f"{len(ids)} given tokens and {max_tokens} to generate exceed the model's {positions} positions"
            )
        if min(ids) < 0 or max(ids) >= vocabulary:
            raise EngineError(f"token ids {min(ids)} to {max(ids)} do not fit a vocabulary of {vocabulary}")
        return tuple(ids)


def expected_shapes(folder: Path) -> tuple[Shapes, bool]:
    """The tensors of the model by name, and whether its embeddings are tied. No weight is read."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    return shapes, bool(config.tie_word_embeddings)


def check_weights(shapes: Shapes, tied: bool, weights: Mapping[str, torch.Tensor]) -> None:
    """Raise EngineError unless `weights` are exactly the model's: vLLM would load what fits and warn of the rest."""
    expected = dict(shapes)
    if tied and "lm_head.weight" not in weights:
        expected.pop("lm_head.weight", None)
    missing, unexpected = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing or unexpected:
        raise EngineError(
            f"weights do not fit the model: {len(missing)} missing {missing[:3]}, "
            f"{len(unexpected)} unexpected {unexpected[:3]}"
        )
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            raise EngineError(f"weight {name} has shape {tuple(weights[name].shape)}, the model needs {shape}")


def _core_options(folder: Path, options: VllmOptions) -> CoreOptions:
    own = options.process == "own"
    if options.process == "auto":
        own = options.tensor_parallel > 1 or not on_cpu()
    if options.tensor_parallel > 1 and not own:
        raise EngineError('tensor parallelism needs processes of its own: set process = "own"')
    return CoreOptions(
        max_concurrency=options.max_concurrency,
        max_prefill_tokens=options.max_prefill_tokens,
        prefix_caching=options.prefix_caching,
        dtype=options.dtype,
        enforce_eager=options.enforce_eager,
        gpu_memory_utilization=options.gpu_memory_utilization,
        kv_cache_gib=options.kv_cache_gib,
        max_model_len=options.max_model_len,
        tensor_parallel=options.tensor_parallel,
        own_process=own,
        eos_ids=eos_ids(folder),
    )


def _check_sampling(s: Sampling) -> None:
    if s.max_tokens < 1:
        raise EngineError(f"max_tokens is {s.max_tokens}: it must be at least 1")
    if not (s.temperature >= 0 and 0 < s.top_p <= 1 and s.top_k >= 0):
        raise EngineError(
            f"temperature {s.temperature}, top_p {s.top_p} and top_k {s.top_k} must satisfy "
            "temperature >= 0, 0 < top_p <= 1, top_k >= 0"
        )
    if "" in s.stop:
        raise EngineError("an empty stop string stops everything: leave it out")
