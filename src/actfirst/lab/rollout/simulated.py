"""An engine that computes nothing: continuous batching on a virtual clock, with a stated model of its latency.

For more concurrency than a machine has. Whatever uses it says so; its numbers are consequences of the model
below, not measurements. It only generates, and its tokens mean nothing.

A step of the engine takes `step` seconds, `sequence` seconds more for each sequence that gets a token in it, and
`prefill` seconds for each prompt token computed in it, of which there are at most `max_prefill`. A prompt that is
complete gives its first token in the same step.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from actfirst.engines.base import Priority, Sampling
from actfirst.errors import EngineError
from actfirst.records import Completion, EngineStats, StopReason

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")
PROMPT_TOKENS = 900
_INSTANT = 1e-9  # long enough for everything that happens at one moment to have happened


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Seconds. With the defaults and prompts of PROMPT_TOKENS tokens, the speedups that the paper reports for one A100
    and Qwen3-1.7B come out within 0.03 (0.80 and 1.49 for 128 tokens at caps of 16 and 256, 0.92 and 2.42 for 512)."""

    step: float = 0.0065
    sequence: float = 0.00015
    prefill: float = 0.000015
    max_prefill: int = 16384

    def describe(self) -> str:
        return (
            f"a step takes {1e3 * self.step:g} ms, {1e3 * self.sequence:g} ms for each sequence in it and "
            f"{1e3 * self.prefill:g} ms for each prompt token, of which a step computes {self.max_prefill} at most"
        )


@dataclass(slots=True, eq=False)
class _Request:
    prompt_left: int
    tokens_left: int
    future: asyncio.Future[None]


class SimulatedEngine:
    """The Engine protocol over a latency model. Runs on a `VirtualTimeLoop`, or in real time on any other.

    Requests that arrive while steps are under way join at the next moment at which one of the running ends.
    """

    version = 0

    def __init__(self, model: LatencyModel) -> None:
        self._model = model
        self._waiting: list[_Request] = []
        self._running: list[_Request] = []
        self._stepping: asyncio.Task[None] | None = None

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        request = _Request(len(prompt_ids), sampling.max_tokens, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.ensure_future(self._work())
        await request.future
        count = sampling.max_tokens
        return Completion((0,) * count, (0.0,) * count, StopReason.LENGTH, self.version)

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        raise EngineError("the simulated engine cannot score: it has no model; use a real engine")

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        raise EngineError("the simulated engine has no weights; use a real engine")

    def stats(self) -> EngineStats:
        raise EngineError("the simulated engine counts nothing; use a real engine")

    async def close(self) -> None:
        if self._stepping is not None:
            self._stepping.cancel()
            await asyncio.gather(self._stepping, return_exceptions=True)

    async def _work(self) -> None:
        await asyncio.sleep(_INSTANT)
        while self._running or self._waiting:
            self._running += self._waiting
            self._waiting.clear()
            await self._advance()
            await asyncio.sleep(_INSTANT)

    async def _advance(self) -> None:
        """One step with prefill, or as many without as pass before a sequence ends."""
        prefilled = self._prefill()
        decoding = [request for request in self._running if request.prompt_left == 0]
        steps = 1 if prefilled else min(request.tokens_left for request in decoding)
        seconds = steps * (self._model.step + self._model.sequence * len(decoding))
        seconds += self._model.prefill * prefilled
        await asyncio.sleep(seconds)
        for request in decoding:
            request.tokens_left -= steps
            if request.tokens_left == 0 and not request.future.done():
                request.future.set_result(None)
        self._running = [request for request in self._running if request.tokens_left > 0]

    def _prefill(self) -> int:
        budget = self._model.max_prefill
        for request in self._running:
            part = min(budget, request.prompt_left)
            request.prompt_left -= part
            budget -= part
        return self._model.max_prefill - budget


class _SkippingSelector(selectors.SelectSelector):
    """Moves its clock forward instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self.now += timeout
            timeout = 0
        return super().select(timeout)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which sleeping takes no time: its clock jumps to whatever comes next."""

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


def run_in_virtual_time(work: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` on a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
