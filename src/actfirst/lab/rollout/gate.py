"""A cap on concurrent requests, shared by fast actions and full responses, in front of any engine.

A request holds a slot from admission to its end. Waiting ones are admitted first come, first served, and with
`fast_first` all fast actions before any full response, which is how the program's own engine does it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actfirst.engines.base import Priority

_numbers = itertools.count()


class Gate:
    """At most `cap` requests at a time. `number` is no other gate's: it tells one run of a schedule from the next."""

    def __init__(self, cap: int, *, fast_first: bool) -> None:
        self.number = next(_numbers)
        self._free = cap
        self._fast_first = fast_first
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0

    @asynccontextmanager
    async def slot(self, priority: Priority) -> AsyncIterator[None]:
        if self._free > 0:
            self._free -= 1
        else:
            await self._admission(priority)
        try:
            yield
        finally:
            self._hand_on()

    async def _admission(self, priority: Priority) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (priority if self._fast_first else 0, self._arrivals, future))
        await future

    def _hand_on(self) -> None:
        """Give the slot to whoever is next; a request that was cancelled while waiting is passed over."""
        while self._waiting:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)
                return
        self._free += 1
