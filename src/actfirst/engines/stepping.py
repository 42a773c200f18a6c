"""The stepping loop of an engine: one thread takes requests, steps while there is work, and swaps weights.

What computes is a `Stepper`; it knows neither threads nor who waits. Results go back to the event loop that asked. An
exception in the thread fails everything pending, and every later request, with its cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import torch

from actfirst.engines.base import Priority
from actfirst.errors import EngineDied, EngineError
from actfirst.records import Completion, EngineStats, Scores

Result: TypeAlias = Completion | Scores | EngineError


@dataclass(slots=True)
class Counters:
    """What an engine has done so far, by class of request where that matters. `ended` counts cancelled ones too."""

    ended: int = 0
    generated: int = 0
    scored: int = 0
    drafted: int = 0
    accepted: int = 0
    paused: int = 0
    steps: int = 0
    busy: float = 0.0
    prefilled: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(Priority, 0))
    cached: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(Priority, 0))
    completed: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(Priority, 0))
    seconds: dict[Priority, float] = field(default_factory=lambda: dict.fromkeys(Priority, 0.0))


class Awaited(Protocol):
    """A request that somebody awaits."""

    future: asyncio.Future[Any]


Request = TypeVar("Request", bound=Awaited)


class Stepper(Protocol[Request]):
    """What computes. Everything is called from the loop's thread, after construction."""

    counters: Counters

    @property
    def running(self) -> int:
        """How many requests are being computed."""
        ...

    @property
    def begun(self) -> bool:
        """Whether anything has begun and not ended."""
        ...

    @property
    def swappable(self) -> bool:
        """Whether new weights can be installed now."""
        ...

    @property
    def drains(self) -> bool:
        """Whether nothing may begin while weights wait to be installed."""
        ...

    @property
    def waiting(self) -> bool: ...

    def pending(self) -> list[Request]:
        """Everything that has not ended."""
        ...

    def add(self, request: Request) -> None: ...

    def cancel(self, request: Request) -> bool:
        """Forget a request; False if it has ended already."""
        ...

    def step(self, *, admit: bool) -> list[tuple[Request, Result]]:
        """Compute; returns what ended. With `admit` false only what has begun goes on."""
        ...

    def install(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Take new weights, when `swappable`. What begins from now on runs on them and finds no older cache."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Ask(Generic[Request]):
    request: Request


@dataclass(frozen=True, slots=True)
class _Cancel(Generic[Request]):
    request: Request


@dataclass(frozen=True, slots=True)
class _Load:
    """New weights, to be installed as soon as the stepper can take them."""

    weights: Mapping[str, torch.Tensor]
    version: int
    future: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class _Call:
    """Something else to do with the stepper between two steps."""

    work: Callable[[], Any]
    future: asyncio.Future[Any]


class _Close:
    """End the thread."""


class SteppingLoop(Generic[Request]):
    """Owns a stepper and the thread in which everything of it happens after construction."""

    def __init__(
        self,
        stepper: Stepper[Request],
        *,
        name: str,
        threads: int,
        within: AbstractContextManager[object] | None = None,
    ) -> None:
        """`threads` are torch's in the thread; all of it happens `within` a context."""
        self.stepper = stepper
        self.version = 0
        self._threads = threads
        self._within = within or contextlib.nullcontext()
        self._accepted = 0
        self._loads: list[_Load] = []
        self._inbox: queue.SimpleQueue[_Ask[Request] | _Cancel[Request] | _Load | _Call | _Close]
        self._inbox = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._failure: EngineError | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def ask(self, request: Request) -> None:
        """Hand over a request. Raises EngineError when nobody is there any more to take it."""
        self._send(_Ask(request))

    def load(self, weights: Mapping[str, torch.Tensor], version: int) -> asyncio.Future[None]:
        """Hand over weights; done when they are installed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._send(_Load(weights, version, future))
        return future

    def call(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Have something done in the thread between two steps; what it raises is raised to whoever awaits it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._send(_Call(work, future))
        return future

    def cancel(self, request: Request) -> None:
        """Fine after the request's end, and the loop's."""
        self._inbox.put(_Cancel(request))

    def close(self) -> None:
        """End the thread soon; what is pending fails."""
        self._inbox.put(_Close())

    def stats(self) -> EngineStats:
        done, running = self.stepper.counters, self.stepper.running
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
            drafted_tokens=done.drafted,
            accepted_tokens=done.accepted,
            paused=done.paused,
            fast_ended=done.completed[Priority.FAST],
            fast_seconds=done.seconds[Priority.FAST],
            full_ended=done.completed[Priority.FULL],
            full_seconds=done.seconds[Priority.FULL],
        )

    def _send(self, message: _Ask[Request] | _Load | _Call) -> None:
        with self._lock:
            if self._failure is not None:
                raise self._failure.again()
            self._accepted += isinstance(message, _Ask)
            self._inbox.put(message)

    def _run(self) -> None:
        failure = EngineError("the engine is closed")
        try:
            torch.set_num_threads(self._threads)
            with self._within:
                while self._receive():
                    self._swap_weights()
                    admit = not (self._loads and self.stepper.drains)
                    if self.stepper.begun or (self.stepper.waiting and admit):
                        self._step(admit)
        except BaseException as error:  # the thread's last act is to tell everybody
            failure = EngineDied(f"the engine died of {type(error).__name__}: {error}")
        self._fail_all(failure)
        self.stepper.close()

    def _receive(self) -> bool:
        """Take what has arrived, waiting for it if there is nothing else to do; False to stop."""
        idle = not (self.stepper.begun or self.stepper.waiting or self._loads)
        while idle or not self._inbox.empty():
            message = self._inbox.get()
            idle = False
            match message:
                case _Close():
                    return False
                case _Load():
                    self._loads.append(message)
                case _Call(work, future):
                    _resolve([(future, _outcome(work))])
                case _Ask(request):
                    self.stepper.add(request)
                case _Cancel(request):
                    self.stepper.counters.ended += self.stepper.cancel(request)
        return True

    def _swap_weights(self) -> None:
        while self._loads and self.stepper.swappable:
            load = self._loads[0]  # it stays listed until it is done: a failure on the way must find its future
            if not load.future.cancelled():
                self.stepper.install(load.weights, load.version)
                self.version = load.version
                _resolve([(load.future, None)])
            self._loads.pop(0)

    def _step(self, admit: bool) -> None:
        counters, begun = self.stepper.counters, time.perf_counter()
        ended = self.stepper.step(admit=admit)
        counters.steps += 1
        counters.busy += time.perf_counter() - begun
        counters.ended += len(ended)
        _resolve([(request.future, _checked(result)) for request, result in ended])

    def _fail_all(self, failure: EngineError) -> None:
        with self._lock:
            self._failure = failure
            futures = [request.future for request in self.stepper.pending()]
            futures += [load.future for load in self._loads]
            while not self._inbox.empty():
                match self._inbox.get():
                    case _Ask(request):
                        futures.append(request.future)
                    case _Load(future=future) | _Call(future=future):
                        futures.append(future)
        _resolve([(future, failure.again()) for future in futures])


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except EngineError as error:
        return error


def _checked(result: Result) -> Result:
    if not isinstance(result, EngineError) and math.isnan(sum(result.logprobs)):
        return EngineError("the model's output is not a number: its weights are broken")
    return result


def _resolve(results: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    """Hand results to the event loops that wait for them, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for future, result in results:
        by_loop.setdefault(future.get_loop(), []).append((future, result))
    for loop, settled in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there any more
            loop.call_soon_threadsafe(_set_results, settled)


def _set_results(results: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in results:
        if future.done():  # cancelled in the meantime
            continue
        if isinstance(result, EngineError):
            future.set_exception(result)
        else:
            future.set_result(result)
