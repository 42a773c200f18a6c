"""The two schedules that are timed, and the two that bound them. All wait until every request of a batch has ended.

Vanilla: a task's next turn waits for its full response. ActFirst: the fast action and the full response of a turn are
submitted together, and the fast action alone releases the next turn. Full responses have the same seeds in both.

A task's context is the same in all its virtual turns, unlike in real rollouts. So that an engine with a prefix cache
gains no more than it would in real turns, every turn of every run has a beginning of its own: only the fast and the
full prompt of one turn share it.

What ActFirst cannot do without, on this engine: `chain`, its fast actions one after the other and a last response, with
nothing else under way; and `flood`, all its requests without any dependency, which keeps the engine saturated.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.rollout.together import together
from actfirst.seeds import derive_seed

_BEGINNING = 32
"""Tokens that tell turns and runs apart; blocks of prefix caches have 16."""

_MOST_TURNS = 1 << 10

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class BenchContext:
    """One task's prompts for both kinds of request, tokenised once: timing excludes tokenisation."""

    task_id: str
    fast_ids: tuple[int, ...]
    full_ids: tuple[int, ...]


class Gate:
    """A cap on concurrent requests, shared by fast actions and full responses, in front of any engine.

    A request holds a slot from admission to its end. Waiting requests are admitted in order of arrival; with
    `fast_first` all fast actions go before any full response, as in the program's own engine. `number` tells one run
    of a schedule from the next: no other gate has it.
    """

    def __init__(self, cap: int, *, fast_first: bool) -> None:
        self.number = next(_numbers)
        self._free = cap
        self._fast_first = fast_first
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def slot(self, priority: Priority) -> AsyncIterator[None]:
        if self._free > 0:
            self._free -= 1
        else:
            admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            rank = priority if self._fast_first else 0
            heapq.heappush(self._waiting, (rank, next(self._arrivals), admitted))
            await admitted
        try:
            yield
        finally:
            self._hand_on()

    def _hand_on(self) -> None:
        """Give the slot to the next request; one that was cancelled while waiting is skipped."""
        while self._waiting:
            _, _, admitted = heapq.heappop(self._waiting)
            if not admitted.done():
                admitted.set_result(None)
                return
        self._free += 1


Schedule = Callable[[BenchContext, int, Gate], Coroutine[Any, Any, None]]
"""Plays the turns of one task."""


@dataclass(frozen=True)
class Bench:
    """An engine and what is asked of it. Lengths are exact: neither EOS nor any text ends a completion."""

    engine: Engine
    fast: int
    full: int
    seed: int

    async def vanilla(self, context: BenchContext, turns: int, gate: Gate) -> None:
        for turn in range(turns):
            await self.respond(context, turn, gate)

    async def actfirst(self, context: BenchContext, turns: int, gate: Gate) -> None:
        responses = []
        for turn in range(turns):
            action = asyncio.ensure_future(self.act(context, turn, gate))
            responses.append(asyncio.ensure_future(self.respond(context, turn, gate)))
            await action
        await asyncio.gather(*responses)

    async def chain(self, context: BenchContext, turns: int, gate: Gate) -> None:
        for turn in range(turns - 1):
            await self.act(context, turn, gate)
        await together((self.act(context, turns - 1, gate), self.respond(context, turns - 1, gate)))

    async def flood(self, context: BenchContext, turns: int, gate: Gate) -> None:
        await together(ask(context, turn, gate) for turn in range(turns) for ask in (self.act, self.respond))

    async def act(self, context: BenchContext, turn: int, gate: Gate) -> None:
        seed = derive_seed(self.seed, context.task_id, turn, "fast")
        await self._ask(_own(context.fast_ids, turn, gate), self.fast, seed, Priority.FAST, gate)

    async def respond(self, context: BenchContext, turn: int, gate: Gate) -> None:
        seed = derive_seed(self.seed, context.task_id, turn, "full")
        await self._ask(_own(context.full_ids, turn, gate), self.full, seed, Priority.FULL, gate)

    async def _ask(self, ids: tuple[int, ...], tokens: int, seed: int, priority: Priority, gate: Gate) -> None:
        async with gate.slot(priority):
            await self.engine.generate(ids, Sampling(tokens, seed=seed, ignore_eos=True), priority)


async def timed(schedule: Schedule, batch: Sequence[BenchContext], turns: int, gate: Gate) -> float:
    """Seconds of one batch, on the event loop's clock."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    await together(schedule(context, turns, gate) for context in batch)
    return clock() - begun


def _own(ids: tuple[int, ...], turn: int, gate: Gate) -> tuple[int, ...]:
    """The prompt with a beginning that no other turn has, of the same length: a number in two of its own tokens."""
    tokens = sorted(set(ids))
    one, other = tokens[0], tokens[-1]
    code, length = gate.number * _MOST_TURNS + turn, min(_BEGINNING, len(ids))
    return (*(other if code >> bit & 1 else one for bit in range(length)), *ids[length:])
