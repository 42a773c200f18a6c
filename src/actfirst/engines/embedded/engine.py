"""The embedded engine behind the contract of engines/base.py: checks requests and hands them to its thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.embedded.checkpoint import Checkpoint, ModelConfig, read_checkpoint, read_weights
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.loop import Cancel, Close, Load, StepLoop
from actfirst.engines.embedded.model import Model
from actfirst.engines.embedded.prefix_cache import PrefixCache, block_keys
from actfirst.engines.embedded.runner import Runner
from actfirst.engines.embedded.scheduler import Scheduler
from actfirst.engines.embedded.sequence import Generation, IdArray, Scoring, Stopping, Uniforms
from actfirst.engines.embedded.sequence import Sequence as Request
from actfirst.engines.embedded.weights import PackedWeights, check_state
from actfirst.errors import EngineError
from actfirst.records import Completion, EngineStats

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """How an embedded engine runs.

    `max_concurrency` caps the requests in the engine, of all kinds together. `max_prefill_tokens` bounds the
    prompt tokens of one step. `prefix_cache_tokens` bounds the prefix cache, whose memory grows as it is used.
    `preempt` lets a full response pause for a fast action when all places are taken.
    `threads` are those of the stepping thread's torch: 2 only where nothing else is busy.
    """

    max_concurrency: int = 64
    max_prefill_tokens: int = 4096
    prefix_caching: bool = True
    prefix_cache_tokens: int = 32768
    preempt: bool = False
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "cpu"
    threads: int = 2
    version: int = 0

    def __post_init__(self) -> None:
        for name in ("max_concurrency", "max_prefill_tokens", "threads"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} is {getattr(self, name)}: it must be at least 1")


class EmbeddedEngine:
    """Generates with and scores under one model. Close it: it owns a thread."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        weights: Mapping[str, torch.Tensor],
        options: EmbeddedOptions | None = None,
    ) -> None:
        """`weights` are a state dict with the names of the Hugging Face model; they are copied."""
        self.options = options = options or EmbeddedOptions()
        self.config = checkpoint.config
        self._stopping = Stopping(checkpoint.eos_ids, checkpoint.tokens)
        check_state(self.config, weights)
        with torch.inference_mode():
            runner = _build(self.config, self._stopping, options)
            runner.install(weights)
        self._loop = StepLoop(runner, threads=options.threads, version=options.version)

    @classmethod
    def from_pretrained(cls, path: Path | str, options: EmbeddedOptions | None = None) -> EmbeddedEngine:
        """From a transformers checkpoint folder: config.json, safetensors (sharded or not), tokenizer.json."""
        folder = Path(path)
        return cls(read_checkpoint(folder), read_weights(folder), options)

    @property
    def version(self) -> int:
        return self._loop.version

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        ids = self._checked_ids(prompt_ids, sampling.max_tokens)
        self._check_sampling(sampling)
        request = Generation(
            ids=ids,
            prompt_length=len(ids),
            priority=priority,
            keys=self._keys(ids),
            future=asyncio.get_running_loop().create_future(),
            sampling=sampling,
            watch=self._stopping.watch(sampling.stop),
            uniforms=Uniforms(sampling.seed),
        )
        request.draft()
        completion: Completion = await self._result(request)
        return completion

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        if not prompt_ids:
            raise EngineError("cannot score after an empty prompt: the first token would have no context")
        if not token_ids:
            return ()
        ids = self._checked_ids([*prompt_ids, *token_ids], 0)
        request = Scoring(
            ids=ids[:-1],
            prompt_length=len(prompt_ids),
            priority=Priority.FULL,
            keys=self._keys(ids[: len(prompt_ids)]),
            future=asyncio.get_running_loop().create_future(),
            targets=ids[len(prompt_ids) :],
        )
        logprobs: tuple[float, ...] = await self._result(request)
        return logprobs

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Install new weights when running requests have ended. They must not change until this returns."""
        check_state(self.config, weights)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop.send(Load(weights, version, future))
        await future

    def stats(self) -> EngineStats:
        counters, running = self._loop.runner.counters, len(self._loop.runner.scheduler.running)
        return EngineStats(
            requests=self._loop.accepted,
            prefilled_tokens=counters.prefilled_tokens,
            cached_tokens=counters.cached_tokens,
            generated_tokens=counters.generated_tokens,
            scored_tokens=counters.scored_tokens,
            steps=counters.steps,
            busy_seconds=counters.busy_seconds,
            running=running,
            waiting=max(0, self._loop.accepted - self._loop.ended - running),
            fast_prefilled_tokens=counters.fast_prefilled_tokens,
            fast_cached_tokens=counters.fast_cached_tokens,
            drafted_tokens=counters.drafted_tokens,
            accepted_tokens=counters.accepted_tokens,
            paused=self._loop.runner.scheduler.paused,
            fast_ended=counters.ended[Priority.FAST],
            fast_seconds=counters.seconds[Priority.FAST],
            full_ended=counters.ended[Priority.FULL],
            full_seconds=counters.seconds[Priority.FULL],
        )

    def memory(self) -> int:
        """Bytes that weights, the slots of sequences and the prefix cache hold now."""
        return self._loop.runner.memory()

    async def close(self) -> None:
        """End the thread; what is pending fails. Closing twice is fine."""
        self._loop.tell(Close())
        while self._loop.thread.is_alive():  # noqa: ASYNC110 (a thread cannot be awaited)
            await asyncio.sleep(0.002)

    async def _result(self, request: Request) -> Any:
        self._loop.send(request)
        try:
            return await request.future
        except asyncio.CancelledError:
            self._loop.tell(Cancel(request))
            raise

    def _keys(self, prompt: IdArray) -> tuple[bytes, ...]:
        return block_keys(prompt) if self.options.prefix_caching else ()

    def _checked_ids(self, ids: Sequence[int], max_tokens: int) -> IdArray:
        array: IdArray = np.array(ids, dtype=np.int64)
        if not len(array):
            raise EngineError("the prompt is empty: give at least one token")
        if len(array) + max_tokens > self.config.max_positions:
            raise EngineError(
                f"{len(array)} given tokens and {max_tokens} to generate exceed the model's "
                f"{self.config.max_positions} positions"
            )
        if array.min() < 0 or array.max() >= self.config.vocab_size:
            raise EngineError(
                f"token ids {array.min()} to {array.max()} do not fit a vocabulary of {self.config.vocab_size}"
            )
        return array

    def _check_sampling(self, s: Sampling) -> None:
        if s.max_tokens < 1:
            raise EngineError(f"max_tokens is {s.max_tokens}: it must be at least 1")
        if not (s.temperature >= 0 and 0 < s.top_p <= 1 and s.top_k >= 0):
            raise EngineError(
                f"temperature {s.temperature}, top_p {s.top_p} and top_k {s.top_k} must satisfy "
                "temperature >= 0, 0 < top_p <= 1, top_k >= 0"
            )
        if s.stop and self._stopping.tokens is None:
            raise EngineError("stop strings need the checkpoint's tokenizer.json, which is missing")
        drafts = (*s.draft.possible, s.draft.likely) if s.draft is not None else ()
        if any(not 0 <= token < self.config.vocab_size for draft in drafts for token in draft):
            raise EngineError(f"a draft token does not fit a vocabulary of {self.config.vocab_size}")
        if "" in s.stop:
            raise EngineError("an empty stop string stops everything: leave it out")


def _build(config: ModelConfig, stopping: Stopping, options: EmbeddedOptions) -> Runner:
    """All parts but the thread, with memory for the weights but nothing in it."""
    dtype, device = DTYPES[options.dtype], torch.device(options.device)
    cache = KVCache(config, dtype, device, max_slots=options.max_concurrency, max_length=config.max_positions)
    prefix = PrefixCache(cache, options.prefix_cache_tokens) if options.prefix_caching else None
    scheduler = Scheduler(
        cache,
        prefix,
        max_concurrency=options.max_concurrency,
        max_prefill_tokens=options.max_prefill_tokens,
        preempt=options.preempt,
    )
    return Runner(Model(PackedWeights(config, dtype, device), cache), scheduler, prefix, stopping)
