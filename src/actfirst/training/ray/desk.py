"""An actor's end of a line (`line.py`): requests come and answers leave in parcels, however many there are of each.

A remote call costs its caller most of a millisecond, whatever it carries. So requests are no calls of their own: a
parcel brings all that were made at the same moment, and another takes along whatever was answered since the last one.
Each request is still one of its own: it runs at once, fails alone and can be taken back.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from actfirst.engines.base import Priority, Sampling
from actfirst.errors import ActfirstError
from actfirst.records import EngineStats
from actfirst.training.ray.calls import ours


@dataclass(frozen=True, slots=True)
class Generate:
    """`swap`: the last swap of weights that was announced to the engine before."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    priority: Priority
    swap: int


@dataclass(frozen=True, slots=True)
class Score:
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    swap: int


Request: TypeAlias = Generate | Score


@dataclass(frozen=True, slots=True)
class Parcel:
    """The `turn`-th of its line, from 1 on: new requests by their numbers, and numbers of those nobody waits for."""

    turn: int
    requests: dict[int, Request]
    unwanted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answers:
    """What ended since the last ones, by the numbers of the requests, and the engine's counters."""

    results: dict[int, Any]
    failures: dict[int, ActfirstError]
    stats: EngineStats


class Desk(ABC):
    """What a line calls. Ray does not promise to start calls in the order in which they were made; parcels are opened
    in the order of their turns."""

    def __init__(self) -> None:
        self._running: dict[int, asyncio.Task[None]] = {}
        self._results: dict[int, Any] = {}
        self._failures: dict[int, ActfirstError] = {}
        self._ended = asyncio.Event()
        self._turns = 0
        self._opened = asyncio.Condition()

    @abstractmethod
    async def answer(self, request: Request) -> Any:
        """Do what a request asks for."""

    @abstractmethod
    def stats(self) -> EngineStats:
        """Counters for whoever reads the answers."""

    async def give(self, parcel: Parcel) -> None:
        """Begin what a parcel asks for."""
        async with self._opened:
            await self._opened.wait_for(lambda: self._turns == parcel.turn - 1)
            for number, request in parcel.requests.items():
                self._running[number] = asyncio.create_task(self._run(number, request))
            for number in parcel.unwanted:
                if number in self._running:
                    self._running.pop(number).cancel()
            self._turns = parcel.turn
            self._opened.notify_all()

    async def take(self, parcel: Parcel) -> Answers:
        """As `give`; returns when something has ended, with all that has."""
        await self.give(parcel)
        await self._ended.wait()
        self._ended.clear()
        answers = Answers(self._results, self._failures, self.stats())
        self._results, self._failures = {}, {}
        return answers

    async def _run(self, number: int, request: Request) -> None:
        try:
            self._results[number] = await self.answer(request)
        except Exception as error:
            self._failures[number] = ours(error)
        self._running.pop(number, None)
        self._ended.set()
