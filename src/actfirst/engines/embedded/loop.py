"""The stepping thread: takes requests from an inbox, steps while there is work and sleeps otherwise.

Results go back to the event loop that asked. An exception in the thread fails everything pending, and every
later request, with its cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from actfirst.engines.embedded.runner import Runner
from actfirst.engines.embedded.sequence import Generation, Sequence
from actfirst.errors import EngineDied, EngineError
from actfirst.records import Completion


@dataclass(frozen=True, slots=True)
class Cancel:
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class Load:
    """New weights, to be installed when nothing runs on the old ones."""

    weights: Mapping[str, torch.Tensor]
    version: int
    future: asyncio.Future[None]


class Close:
    """End the thread."""


Message = Sequence | Cancel | Load | Close


class StepLoop:
    """Owns a runner and the thread in which everything of it happens after construction."""

    def __init__(self, runner: Runner, *, threads: int, version: int) -> None:
        self.runner = runner
        self.version = version
        self.accepted = 0
        self.ended = 0
        self._threads = threads
        self._scheduler = runner.scheduler
        self._loads: list[Load] = []
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._failure: EngineError | None = None
        self.thread = threading.Thread(target=self._run, name="embedded-engine", daemon=True)
        self.thread.start()

    def send(self, message: Message) -> None:
        """Called from outside. Raises EngineError when nobody is there any more to take the message."""
        with self._lock:
            if self._failure is not None:
                raise self._failure.again()
            self.accepted += isinstance(message, Sequence)
            self._inbox.put(message)

    def tell(self, message: Cancel | Close) -> None:
        """Like `send`, for what needs no answer: fine after the end."""
        self._inbox.put(message)

    def _run(self) -> None:
        failure = EngineError("the engine is closed")
        try:
            torch.set_num_threads(self._threads)
            with torch.inference_mode():
                while self._receive():
                    self._swap_weights()
                    if self._scheduler.begun or (self._scheduler.waiting and not self._loads):
                        self._settle(self.runner.step(admit=not self._loads))
        except BaseException as error:  # the thread's last act is to tell everybody
            failure = EngineDied(f"the engine died of {type(error).__name__}: {error}")
        self._fail_all(failure)

    def _receive(self) -> bool:
        """Take what has arrived, waiting for it if there is nothing else to do; False to stop."""
        idle = not (self._scheduler.begun or self._scheduler.waiting or self._loads)
        while idle or not self._inbox.empty():
            message = self._inbox.get()
            idle = False
            if isinstance(message, Close):
                return False
            if isinstance(message, Load):
                self._loads.append(message)
            elif isinstance(message, Sequence):
                self._scheduler.add(message)
            elif message.sequence in self._scheduler.sequences():
                self.runner.cancel(message.sequence)
                self.ended += 1
        return True

    def _swap_weights(self) -> None:
        while self._loads and not self._scheduler.begun:
            load = self._loads[0]  # it stays listed until it is done: a failure on the way must find its future
            if not load.future.cancelled():
                self.runner.install(load.weights)
                self.version = load.version
                _resolve([(load.future, None)])
            self._loads.pop(0)

    def _settle(self, ended: Iterable[Sequence]) -> None:
        results = [(sequence.future, self._outcome(sequence)) for sequence in ended]
        self.ended += len(results)
        _resolve(results)

    def _outcome(self, sequence: Sequence) -> Completion | tuple[float, ...] | EngineError:
        logprobs = tuple(sequence.logprobs)
        if math.isnan(sum(logprobs)):
            return EngineError("the model's output is not a number: its weights are broken")
        if isinstance(sequence, Generation):
            return Completion(tuple(sequence.tokens), logprobs, sequence.stop_reason, self.version)
        return logprobs

    def _fail_all(self, failure: EngineError) -> None:
        with self._lock:
            self._failure = failure
            pending: list[Sequence | Load] = [*self._scheduler.sequences(), *self._loads]
            while not self._inbox.empty():
                message = self._inbox.get()
                if isinstance(message, Sequence | Load):
                    pending.append(message)
        _resolve([(item.future, failure.again()) for item in pending])


def _resolve(results: list[tuple[asyncio.Future[Any], Any]]) -> None:
    """Hand results to the event loops that wait for them, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for future, result in results:
        by_loop.setdefault(future.get_loop(), []).append((future, result))
    for loop, settled in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there any more
            loop.call_soon_threadsafe(_set_results, settled)


def _set_results(results: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in results:
        if future.done():  # cancelled in the meantime
            continue
        if isinstance(result, EngineError):
            future.set_exception(result)
        else:
            future.set_result(result)
