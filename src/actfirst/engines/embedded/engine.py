"""The embedded engine behind the contract of engines/base.py: async calls outside, one stepping thread inside.

Callers put requests into an inbox; the thread takes them, steps while there is work and sleeps otherwise; results
go back to the event loop that asked. An exception in the thread fails everything pending and every later call.
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from actfirst.engines.base import EngineStats, Priority, Sampling
from actfirst.engines.embedded.checkpoint import Checkpoint, read_checkpoint, read_weights
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.model import Model
from actfirst.engines.embedded.prefix_cache import PrefixCache, block_keys
from actfirst.engines.embedded.runner import Runner
from actfirst.engines.embedded.scheduler import Scheduler
from actfirst.engines.embedded.sequence import Generation, IdArray, Scoring, Stopping, uniform_stream
from actfirst.engines.embedded.sequence import Sequence as Request
from actfirst.engines.embedded.weights import PackedWeights, check_state
from actfirst.errors import EngineError
from actfirst.records import Completion

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """How an embedded engine runs.

    `max_concurrency` caps the requests in the engine, of all kinds together. `max_prefill_tokens` bounds the
    prompt tokens of one step. `prefix_cache_tokens` bounds the memory of the prefix cache, which grows as it is
    used. `threads` are those of the stepping thread's torch: 2 only where nothing else is busy.
    """

    max_concurrency: int = 64
    max_prefill_tokens: int = 4096
    prefix_caching: bool = True
    prefix_cache_tokens: int = 32768
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "cpu"
    threads: int = 2
    version: int = 0


@dataclass(frozen=True, slots=True)
class _Cancel:
    request: Request


@dataclass(frozen=True, slots=True)
class _Load:
    weights: Mapping[str, torch.Tensor]
    version: int
    future: asyncio.Future[None]


class _Close:
    pass


_Message = Request | _Cancel | _Load | _Close


class EmbeddedEngine:
    """Generates with and scores under one model. Close it: it owns a thread."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        weights: Mapping[str, torch.Tensor],
        options: EmbeddedOptions | None = None,
    ) -> None:
        """`weights` are a state dict with the names of the Hugging Face model; they are copied."""
        self.options = options or EmbeddedOptions()
        self.config = checkpoint.config
        check_state(self.config, weights)
        dtype, device = DTYPES[self.options.dtype], torch.device(self.options.device)
        with torch.inference_mode():
            self._weights = PackedWeights(self.config, dtype, device)
            self._weights.install(weights)
            cache = self._cache = KVCache(
                self.config,
                dtype,
                device,
                max_slots=self.options.max_concurrency,
                max_length=self.config.max_positions,
            )
            caching, capacity = self.options.prefix_caching, self.options.prefix_cache_tokens
            self._prefix = PrefixCache(cache, capacity) if caching else None
            self._scheduler = Scheduler(
                cache,
                self._prefix,
                max_concurrency=self.options.max_concurrency,
                max_prefill_tokens=self.options.max_prefill_tokens,
            )
            self._stopping = Stopping(checkpoint.eos_ids, checkpoint.tokens)
            model = Model(self._weights, cache)
            self._runner = Runner(model, self._scheduler, self._prefix, self._stopping)
        self._version = self.options.version
        self._loads: list[_Load] = []
        self._inbox: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._failure: str | None = None
        self._accepted = 0
        self._ended = 0
        self._thread = threading.Thread(target=self._run, name="embedded-engine", daemon=True)
        self._thread.start()

    @classmethod
    def from_pretrained(cls, path: Path | str, options: EmbeddedOptions | None = None) -> EmbeddedEngine:
        """From a transformers checkpoint folder: config.json, safetensors (sharded or not), tokenizer.json."""
        folder = Path(path)
        return cls(read_checkpoint(folder), read_weights(folder), options)

    @property
    def version(self) -> int:
        return self._version

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
            draw=uniform_stream(sampling.seed),
        )
        completion: Completion = await self._result(request)
        return completion

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        ids = self._checked_ids([*prompt_ids, *token_ids], 0)
        if not prompt_ids:
            raise EngineError("cannot score after an empty prompt: the first token would have no context")
        if not token_ids:
            return ()
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
        """Install new weights once running requests have ended. `weights` must not change until this returns."""
        check_state(self.config, weights)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._send(_Load(weights, version, future))
        await future

    def stats(self) -> EngineStats:
        c, running = self._runner.counters, len(self._scheduler.running)
        return EngineStats(
            requests=self._accepted,
            prefilled_tokens=c.prefilled_tokens,
            cached_tokens=c.cached_tokens,
            generated_tokens=c.generated_tokens,
            scored_tokens=c.scored_tokens,
            steps=c.steps,
            running=running,
            waiting=max(0, self._accepted - self._ended - running),
        )

    async def close(self) -> None:
        """End the thread; what is pending fails. Closing twice is fine."""
        with self._lock:
            self._inbox.put(_Close())
        while self._thread.is_alive():
            await asyncio.sleep(0.002)

    # What follows up to the next mark runs in the caller's thread.

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
        if "" in s.stop:
            raise EngineError("an empty stop string stops everything: leave it out")

    def _keys(self, prompt: IdArray) -> tuple[bytes, ...]:
        return block_keys(prompt) if self._prefix is not None else ()

    async def _result(self, request: Request) -> Any:
        self._send(request)
        try:
            return await request.future
        except asyncio.CancelledError:
            self._inbox.put(_Cancel(request))
            raise

    def _send(self, message: _Message) -> None:
        with self._lock:
            if self._failure is not None:
                raise EngineError(self._failure)
            self._accepted += isinstance(message, Request)
            self._inbox.put(message)

    # What follows runs in the stepping thread.

    def _run(self) -> None:
        failure = "the engine is closed"
        try:
            torch.set_num_threads(self.options.threads)
            with torch.inference_mode():
                while self._receive():
                    self._swap_weights()
                    if self._scheduler.running or (self._scheduler.waiting and not self._loads):
                        self._settle(self._runner.step(admit=not self._loads))
        except BaseException as error:  # the thread's last act is to tell everybody
            failure = f"the engine died of {type(error).__name__}: {error}"
        self._fail_all(failure)

    def _receive(self) -> bool:
        """Take what has arrived, waiting for it if there is nothing else to do; False to stop."""
        idle = not self._scheduler.running and not self._loads and not self._scheduler.waiting
        while idle or not self._inbox.empty():
            message = self._inbox.get()
            idle = False
            if isinstance(message, _Close):
                return False
            if isinstance(message, _Load):
                self._loads.append(message)
            elif isinstance(message, _Cancel):
                self._cancel(message.request)
            else:
                self._scheduler.add(message)
        return True

    def _cancel(self, request: Request) -> None:
        if request in self._scheduler.sequences():
            self._scheduler.remove(request)
            self._runner.batch_changed()
            self._ended += 1

    def _swap_weights(self) -> None:
        """Install what waits to be installed once nothing runs on the old weights."""
        while self._loads and not self._scheduler.running:
            load = self._loads.pop(0)
            if load.future.cancelled():
                continue
            self._weights.install(load.weights)
            self._cache.clear()
            if self._prefix is not None:
                self._prefix.clear()
            self._version = load.version
            _resolve([(load.future, None)])

    def _settle(self, ended: Iterable[Request]) -> None:
        results = [(request.future, self._outcome(request)) for request in ended]
        self._ended += len(results)
        _resolve(results)

    def _outcome(self, request: Request) -> Completion | tuple[float, ...] | EngineError:
        if math.isnan(sum(request.logprobs)):
            return EngineError("the model's output is not a number: its weights are broken")
        if isinstance(request, Generation):
            tokens, logprobs = tuple(request.tokens), tuple(request.logprobs)
            return Completion(tokens, logprobs, request.stop_reason, self._version)
        return tuple(request.logprobs)

    def _fail_all(self, failure: str) -> None:
        with self._lock:
            self._failure = failure
            futures: list[asyncio.Future[Any]] = [s.future for s in self._scheduler.sequences()]
            futures += [load.future for load in self._loads]
            while not self._inbox.empty():
                message = self._inbox.get()
                if isinstance(message, Request | _Load):
                    futures.append(message.future)
        _resolve([(future, EngineError(failure)) for future in futures])


def _resolve(results: list[tuple[asyncio.Future[Any], Any]]) -> None:
    """Hand results to the event loops that wait for them, one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for future, result in results:
        by_loop.setdefault(future.get_loop(), []).append((future, result))
    for loop, settled in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_set_results, settled)


def _set_results(results: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in results:
        if future.done():
            continue
        if isinstance(result, EngineError):
            future.set_exception(result)
        else:
            future.set_result(result)
