"""Which requests are inside vLLM, and which wait: a `Stepper` over vLLM's core.

The cap and the order of admission are ours and not vLLM's: a request that waits here runs on the weights of the
moment it is admitted, whose version it is stamped with. Unless weights change in flight, those are the weights of all
its tokens. vLLM gets the priority too, for the order of prompts inside a step.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch

from actfirst.config.engine_sections import Swap
from actfirst.engines.base import Priority
from actfirst.engines.stepping import Counters, Result
from actfirst.engines.vllm.work import Core, Failed, Finished, Refused, Scoring, Work
from actfirst.errors import EngineError
from actfirst.records import Completion, Scores


@dataclass(slots=True, eq=False)
class Request:
    """Work that somebody awaits."""

    work: Work
    future: asyncio.Future[Any]
    name: str = ""
    admitted: float = 0.0
    version: int = -1


class Admission:
    """Tokens of cancelled requests are not counted: vLLM does not tell."""

    def __init__(
        self, core: Core, max_concurrency: int, *, priority: bool = True, swap: Swap = "drain"
    ) -> None:
        """Without `priority` requests are admitted in the order in which they came."""
        self.counters = Counters()
        self._core = core
        self._cap = max_concurrency
        self._priority = priority
        self._in_flight = swap == "in_flight"
        self._version = 0
        self._order = count()
        self._waiting: list[tuple[Priority, int, Request]] = []
        self._inside: dict[str, Request] = {}

    @property
    def running(self) -> int:
        return len(self._inside)

    @property
    def begun(self) -> bool:
        return bool(self._inside)

    @property
    def swappable(self) -> bool:
        return self._in_flight or not self._inside

    @property
    def drains(self) -> bool:
        return not self._in_flight

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def pending(self) -> list[Request]:
        return [*self._inside.values(), *(request for *_, request in self._waiting)]

    def add(self, request: Request) -> None:
        place = next(self._order)
        request.name = str(place)
        heapq.heappush(
            self._waiting, (request.work.priority if self._priority else Priority.FULL, place, request)
        )

    def cancel(self, request: Request) -> bool:
        if self._inside.pop(request.name, None) is not None:
            self._core.cancel(request.name)
            return True
        kept = [item for item in self._waiting if item[2] is not request]
        there = len(kept) < len(self._waiting)
        heapq.heapify(kept)
        self._waiting = kept
        return there

    def step(self, *, admit: bool) -> list[tuple[Request, Result]]:
        refused = self._admit() if admit else []
        if refused or not self._inside:
            return refused  # before anything else can fail: nobody has them any more
        ended: list[tuple[Request, Result]] = []
        for done in self._core.step():
            request = self._inside.pop(done.name, None)
            if request is not None:  # else it was cancelled during the step
                ended.append((request, self._result(request, done)))
        return ended

    def install(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        self._core.install(weights)
        self._version = version

    def close(self) -> None:
        self._core.close()

    def _admit(self) -> list[tuple[Request, Result]]:
        """Let in what fits; returns what vLLM refuses."""
        refused: list[tuple[Request, Result]] = []
        while self._waiting and len(self._inside) < self._cap:
            *_, request = heapq.heappop(self._waiting)
            request.admitted, request.version = time.monotonic(), self._version
            self._inside[request.name] = request  # before it starts: a failure on the way must find its future
            try:
                self._core.start(request.name, request.work)
            except Refused as error:
                del self._inside[request.name]
                refused.append((request, EngineError(f"vLLM refuses the request: {error}")))
        return refused

    def _result(self, request: Request, done: Finished | Failed) -> Result:
        if isinstance(done, Failed):
            return EngineError(f"vLLM gave a request up: {done.reason}")
        counters, priority = self.counters, request.work.priority
        counters.prefilled[priority] += done.prefilled
        counters.cached[priority] += done.cached
        if isinstance(request.work, Scoring):
            counters.scored += len(done.logprobs)
            return Scores(done.logprobs)
        counters.generated += len(done.tokens)
        counters.completed[priority] += 1
        counters.seconds[priority] += time.monotonic() - request.admitted
        return Completion(done.tokens, done.logprobs, done.stop_reason, request.version)
