"""The thread that admits requests to vLLM, steps it while there is work, and swaps weights between requests.

The cap and the order of admission are ours and not vLLM's: a request that waits here runs on the weights of the
moment it is admitted, which is what makes "one completion, one version" true. vLLM gets the priority too, for
the order of prompts inside a step.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from actfirst.engines.base import Priority
from actfirst.engines.vllm.work import Core, Finished, Generating, Scoring, Work
from actfirst.errors import EngineDied, EngineError
from actfirst.records import Completion, EngineStats


@dataclass(slots=True, eq=False)
class Request:
    """Work that somebody awaits."""

    work: Work
    future: asyncio.Future[Any]
    name: str = ""
    admitted: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancel:
    request: Request


@dataclass(frozen=True, slots=True)
class Load:
    """New weights, to be installed when nothing runs on the old ones."""

    weights: Mapping[str, torch.Tensor]
    version: int
    future: asyncio.Future[None]


class Close:
    """End the thread."""


Message = Request | Cancel | Load | Close


@dataclass(slots=True)
class Counters:
    """What has been done so far. Tokens of cancelled requests are not counted: vLLM does not tell."""

    ended: int = 0
    generated: int = 0
    scored: int = 0
    steps: int = 0
    busy: float = 0.0
    prefilled: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(Priority, 0))
    cached: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(Priority, 0))
    completed: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(Priority, 0))
    seconds: dict[Priority, float] = field(default_factory=lambda: dict.fromkeys(Priority, 0.0))


class StepLoop:
    """Owns a core and the thread in which everything of it happens after construction."""

    def __init__(self, core: Core, *, max_concurrency: int, version: int, prepare: Callable[[], None]) -> None:
        """`prepare` is the first thing that the thread does."""
        self.version = version
        self._core = core
        self._cap = max_concurrency
        self._prepare = prepare
        self._accepted = 0
        self._counters = Counters()
        self._order = count()
        self._waiting: list[tuple[Priority, int, Request]] = []
        self._running: dict[str, Request] = {}
        self._loads: list[Load] = []
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._failure: EngineError | None = None
        self.thread = threading.Thread(target=self._run, name="vllm-engine", daemon=True)
        self.thread.start()

    def send(self, message: Request | Load) -> None:
        """Called from outside. Raises EngineError when nobody is there any more to take the message."""
        with self._lock:
            if self._failure is not None:
                raise self._failure.again()
            self._accepted += isinstance(message, Request)
            self._inbox.put(message)

    def tell(self, message: Cancel | Close) -> None:
        """Like `send`, for what needs no answer: fine after the end."""
        self._inbox.put(message)

    def stats(self) -> EngineStats:
        done, running = self._counters, len(self._running)
        return EngineStats(
            requests=self._accepted,
            prefilled_tokens=sum(done.prefilled.values()),
            cached_tokens=sum(done.cached.values()),
            generated_tokens=done.generated,
            scored_tokens=done.scored,
            steps=done.steps,
            busy_seconds=done.busy,
            running=running,
            waiting=max(0, self._accepted - done.ended - running),
            fast_prefilled_tokens=done.prefilled[Priority.FAST],
            fast_cached_tokens=done.cached[Priority.FAST],
            fast_ended=done.completed[Priority.FAST],
            fast_seconds=done.seconds[Priority.FAST],
            full_ended=done.completed[Priority.FULL],
            full_seconds=done.seconds[Priority.FULL],
        )

    def _run(self) -> None:
        failure = EngineError("the engine is closed")
        try:
            self._prepare()
            while self._receive():
                self._swap_weights()
                self._admit()
                if self._running:
                    self._step()
        except BaseException as error:  # the thread's last act is to tell everybody
            failure = EngineDied(f"the engine died of {type(error).__name__}: {error}")
        self._fail_all(failure)
        self._core.close()

    def _receive(self) -> bool:
        """Take what has arrived, waiting for it if there is nothing else to do; False to stop."""
        idle = not (self._running or self._waiting or self._loads)
        while idle or not self._inbox.empty():
            message = self._inbox.get()
            idle = False
            match message:
                case Close():
                    return False
                case Load():
                    self._loads.append(message)
                case Request():
                    place = next(self._order)
                    message.name = str(place)
                    heapq.heappush(self._waiting, (message.work.priority, place, message))
                case Cancel():
                    self._drop(message.request)
        return True

    def _drop(self, request: Request) -> None:
        """Forget a request that nobody awaits any more; one that has ended meanwhile is gone already."""
        if self._running.pop(request.name, None) is not None:
            self._core.cancel(request.name)
            self._counters.ended += 1
            return
        kept = [item for item in self._waiting if item[2] is not request]
        if len(kept) < len(self._waiting):
            heapq.heapify(kept)
            self._waiting = kept
            self._counters.ended += 1

    def _swap_weights(self) -> None:
        while self._loads and not self._running:
            load = self._loads[0]  # it stays listed until it is done: a failure on the way must find its future
            if not load.future.cancelled():
                self._core.install(load.weights)
                self.version = load.version
                _resolve([(load.future, None)])
            self._loads.pop(0)

    def _admit(self) -> None:
        while self._waiting and not self._loads and len(self._running) < self._cap:
            *_, request = heapq.heappop(self._waiting)
            request.admitted = time.monotonic()
            self._running[request.name] = request  # before it starts: a failure on the way must find its future
            try:
                self._core.start(request.name, request.work)
            except ValueError as error:  # vLLM refuses this one
                del self._running[request.name]
                self._counters.ended += 1
                _resolve([(request.future, EngineError(f"vLLM refuses the request: {error}"))])

    def _step(self) -> None:
        began = time.monotonic()
        finished = self._core.step()
        now = time.monotonic()
        self._counters.steps += 1
        self._counters.busy += now - began
        results: list[tuple[asyncio.Future[Any], Any]] = []
        for done in finished:
            request = self._running.pop(done.name, None)
            if request is not None:  # else it was cancelled during the step
                self._count(request, done, now)
                results.append((request.future, self._outcome(request.work, done)))
        _resolve(results)

    def _count(self, request: Request, done: Finished, now: float) -> None:
        counters, priority = self._counters, request.work.priority
        counters.ended += 1
        counters.prefilled[priority] += done.prefilled
        counters.cached[priority] += done.cached
        if isinstance(request.work, Scoring):
            counters.scored += len(done.logprobs)
        else:
            counters.generated += len(done.tokens)
            counters.completed[priority] += 1
            counters.seconds[priority] += now - request.admitted

    def _outcome(self, work: Work, done: Finished) -> Completion | tuple[float, ...] | EngineError:
        if math.isnan(sum(done.logprobs)):
            return EngineError("the model's output is not a number: its weights are broken")
        if isinstance(work, Generating):
            return Completion(done.tokens, done.logprobs, done.stop_reason, self.version)
        return done.logprobs

    def _fail_all(self, failure: EngineError) -> None:
        with self._lock:
            self._failure = failure
            pending: list[Request | Load] = [*self._running.values(), *self._loads]
            pending += [request for *_, request in self._waiting]
            while not self._inbox.empty():
                message = self._inbox.get()
                if isinstance(message, Request | Load):
                    pending.append(message)
            self._running.clear()
            self._waiting.clear()
            self._loads.clear()
        _resolve([(item.future, failure.again()) for item in pending])


def _resolve(results: list[tuple[asyncio.Future[Any], Any]]) -> None:
    """Hand results to the event loops that wait for them."""
    for future, result in results:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there any more
            future.get_loop().call_soon_threadsafe(_settle, future, result)


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if future.done():  # cancelled in the meantime
        return
    if isinstance(result, EngineError):
        future.set_exception(result)
    else:
        future.set_result(result)
