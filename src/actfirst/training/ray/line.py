"""The driver's end of a line to one actor (`desk.py`): many requests, few calls.

What is asked for in the same turn of the event loop goes in one call. One call at a time waits at the actor for
answers and brings all that have ended; the busier the driver is, the more of them it finds. What is asked for
meanwhile goes in a call of its own, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from actfirst.records import EngineStats
from actfirst.training.ray.calls import Lost, finished
from actfirst.training.ray.desk import Answers, Parcel, Request


class Line:
    """`heard` gets the counters that come with answers. A line that is closed, or whose actor is gone, stays so."""

    def __init__(self, actor: Any, heard: Callable[[EngineStats], None]) -> None:
        self.actor = actor
        self._heard = heard
        self._numbers = count()
        self._turns = count(1)
        self._awaited: dict[int, asyncio.Future[Any]] = {}
        self._unsent: dict[int, Request] = {}
        self._unwanted: list[int] = []
        self._soon = False  # whether `_send` is about to run
        self._listening = False
        self._calls: set[asyncio.Task[None]] = set()
        self._closed: str | None = None

    async def ask(self, request: Request) -> Any:
        """The answer to a request, or its own failure; `Lost` if the actor is. Cancelling this takes it back."""
        if self._closed is not None:
            raise Lost(self._closed)
        number = next(self._numbers)
        answer = self._awaited[number] = asyncio.get_running_loop().create_future()
        self._unsent[number] = request
        self._send_soon()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._unsent.pop(number, None) is None and number in self._awaited:
                self._unwanted.append(number)
                self._send_soon()
            raise
        finally:
            self._awaited.pop(number, None)

    def close(self, reason: str) -> None:
        """End all calls; what is asked for is lost."""
        if self._closed is not None:
            return
        self._closed = reason
        for call in self._calls:
            call.cancel()
        for answer in self._awaited.values():
            if not answer.done():
                answer.set_exception(Lost(reason))

    def _send_soon(self) -> None:
        if not self._soon and self._closed is None:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._soon = False
        if self._closed is not None or not (self._unsent or self._unwanted):
            return  # the listening call took them along
        if self._awaited and not self._listening:
            self._listening = True
            self._begin(self._listen())
        else:
            self._begin(finished(self.actor.give.remote(self._parcel())))

    async def _listen(self) -> None:
        while self._awaited:
            answers: Answers = await finished(self.actor.take.remote(self._parcel()))
            self._heard(answers.stats)
            for number, result in answers.results.items():
                if (awaited := self._to(number)) is not None:
                    awaited.set_result(result)
            for number, failure in answers.failures.items():
                if (awaited := self._to(number)) is not None:
                    awaited.set_exception(failure)
            await asyncio.sleep(0)  # whoever has an answer may ask for more at once: that goes along
        self._listening = False

    def _to(self, number: int) -> asyncio.Future[Any] | None:
        """Whoever still waits for this answer."""
        awaited = self._awaited.pop(number, None)
        return None if awaited is None or awaited.done() else awaited

    def _parcel(self) -> Parcel:
        parcel = Parcel(next(self._turns), self._unsent, tuple(self._unwanted))
        self._unsent, self._unwanted = {}, []
        return parcel

    def _begin(self, call: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(self._watched(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _watched(self, call: Coroutine[Any, Any, Any]) -> None:
        """A call of many requests that fails took the actor with it, or cannot be trusted any more."""
        try:
            await call
        except Exception as error:
            self.close(str(error))
