"""Engines and drivers as queues on the clock of the event loop, which may be a virtual one.

An engine goes from step to step as `LatencyModel` says. Between two events nothing about a step changes, so steps are
taken together until a sequence ends; a request that comes meanwhile joins at the end of the step under way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from math import ceil

from actfirst.lab.rollout.simulated import LatencyModel

_INSTANT = 1e-9  # long enough for everything that happens at one moment to have happened


@dataclass(frozen=True, slots=True)
class EngineKind:
    """`drains`: new weights wait until nothing runs, and nothing begins until then. To install them takes
    `install` seconds, in which nothing else is computed. `fast_first`: fast actions are admitted before others."""

    latency: LatencyModel
    cap: int
    drains: bool = True
    install: float = 0.0
    fast_first: bool = False


@dataclass(slots=True, eq=False)
class _Sequence:
    prompt: int
    tokens: int
    done: asyncio.Future[int]
    version: int = 0


class PlannedEngine:
    """`busy`: seconds of steps. `installing`: seconds in which weights were installed. `held`: seconds in which
    requests waited, or the engine stood still, because weights were to be installed."""

    def __init__(self, kind: EngineKind) -> None:
        self.kind = kind
        self.busy = 0.0
        self.installing = 0.0
        self.held = 0.0
        self.under_way = 0
        self._version = 0
        self._announced = 0
        self._announced_at = 0.0
        self._waiting: tuple[deque[_Sequence], deque[_Sequence]] = (deque(), deque())
        self._running: list[_Sequence] = []
        self._step: asyncio.TimerHandle | None = None
        self._begun = self._each = 0.0
        self._steps = self._prefilled = 0

    async def ask(self, prompt: int, tokens: int, *, fast: bool = False) -> int:
        """A prompt of so many tokens and so many to generate; the version of the weights on which that began."""
        sequence = _Sequence(prompt, tokens, asyncio.get_running_loop().create_future())
        self._waiting[0 if fast and self.kind.fast_first else 1].append(sequence)
        self.under_way += 1
        if self._step is None:
            self._begin()
        elif self._steps > 1 and self._admits and len(self._running) < self.kind.cap:
            self._cut()
        try:
            return await sequence.done
        finally:
            self.under_way -= 1

    def announce(self, version: int) -> None:
        """New weights have arrived."""
        if self._announced == self._version:
            self._announced_at = asyncio.get_running_loop().time()
        self._announced = version
        if self._step is None:
            self._begin()
        elif self._steps > 1:
            self._cut()

    @property
    def _admits(self) -> bool:
        return self._announced == self._version or not self.kind.drains

    def _begin(self) -> None:
        """What comes at the same moment begins together."""
        self._steps = 0
        self._step = asyncio.get_running_loop().call_later(_INSTANT, self._go)

    def _go(self) -> None:
        """Begin what comes next."""
        loop = asyncio.get_running_loop()
        if self._announced != self._version and not (self.kind.drains and self._running):
            self.installing += self.kind.install
            self._step = loop.call_later(self.kind.install, self._installed, self._announced)
            self._steps = 0
            return
        if self._admits:
            self._admit()
        if not self._running:
            self._step = None
            return
        latency = self.kind.latency
        self._prefilled = self._prefill(latency.max_prefill)
        decoding = [sequence for sequence in self._running if not sequence.prompt]
        self._steps = 1 if self._prefilled else min(sequence.tokens for sequence in decoding)
        self._each = latency.step + latency.sequence * len(decoding) + latency.prefill * self._prefilled
        self._begun = loop.time()
        self._step = loop.call_later(self._steps * self._each, self._ended)

    def _admit(self) -> None:
        for queue in self._waiting:
            while queue and len(self._running) < self.kind.cap:
                sequence = queue.popleft()
                sequence.version = self._version
                self._running.append(sequence)

    def _prefill(self, most: int) -> int:
        left = most
        for sequence in self._running:
            part = min(left, sequence.prompt)
            sequence.prompt -= part
            left -= part
        return most - left

    def _cut(self) -> None:
        """End the steps taken together with the one under way."""
        assert self._step is not None
        loop = asyncio.get_running_loop()
        passed = max(1, ceil((loop.time() - self._begun) / self._each - 1e-6))
        if passed < self._steps:
            self._steps = passed
            self._step.cancel()
            self._step = loop.call_at(self._begun + passed * self._each, self._ended)

    def _ended(self) -> None:
        self.busy += self._steps * self._each
        left = []
        for sequence in self._running:
            if not sequence.prompt:
                sequence.tokens -= self._steps
            if sequence.prompt or sequence.tokens > 0:
                left.append(sequence)
            elif not sequence.done.done():
                sequence.done.set_result(sequence.version)
        self._running = left
        self._go()

    def _installed(self, version: int) -> None:
        self._version = version
        if self.kind.drains:
            self.held += asyncio.get_running_loop().time() - self._announced_at
        else:
            self.held += self.kind.install
        self._announced_at = asyncio.get_running_loop().time()
        self._go()


class Driver:
    """A process that does one thing after the other."""

    def __init__(self) -> None:
        self.busy = 0.0
        self._free = 0.0

    async def spend(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        self._free = max(self._free, now) + seconds
        self.busy += seconds
        await asyncio.sleep(self._free - now)
