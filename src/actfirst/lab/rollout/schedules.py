"""The two schedules that are timed, and the two that bound them. All wait until every request of a batch has ended.

Vanilla: a task's next turn waits for its full response. ActFirst: the fast action and the full response of a turn are
submitted together, and the fast action alone releases the next turn. Full responses have the same seeds in both.

A task's context is the same in all its virtual turns, which no real prompt is. So that an engine with a prefix cache
gains no more than it would in real turns, every turn of every run has a beginning of its own: only the fast and the
full prompt of one turn share it.

What ActFirst cannot do without, on this engine: `chain`, its fast actions one after the other and a last response, with
nothing else under way; and `flood`, all its requests without any dependency, which keeps the engine saturated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.lab.rollout.contexts import BenchContext
from actfirst.lab.rollout.gate import Gate
from actfirst.rollout.together import together
from actfirst.seeds import derive_seed

_BEGINNING = 32
"""Tokens that tell turns and runs apart; blocks of prefix caches have 16."""

_MOST_TURNS = 1 << 10

Play = Callable[[BenchContext], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Bench:
    """An engine and what is asked of it. Lengths are exact: neither EOS nor any text ends a completion."""

    engine: Engine
    fast: int
    full: int
    seed: int

    async def vanilla(self, batch: Sequence[BenchContext], turns: int, gate: Gate) -> float:
        """Seconds of one batch, on the event loop's clock."""

        async def play(context: BenchContext) -> None:
            for turn in range(turns):
                await self.respond(context, turn, gate)

        return await self._timed(play, batch)

    async def actfirst(self, batch: Sequence[BenchContext], turns: int, gate: Gate) -> float:
        async def play(context: BenchContext) -> None:
            responses = []
            for turn in range(turns):
                action = asyncio.ensure_future(self.act(context, turn, gate))
                responses.append(asyncio.ensure_future(self.respond(context, turn, gate)))
                await action
            await asyncio.gather(*responses)

        return await self._timed(play, batch)

    async def chain(self, batch: Sequence[BenchContext], turns: int, gate: Gate) -> float:
        async def play(context: BenchContext) -> None:
            for turn in range(turns - 1):
                await self.act(context, turn, gate)
            await together((self.act(context, turns - 1, gate), self.respond(context, turns - 1, gate)))

        return await self._timed(play, batch)

    async def flood(self, batch: Sequence[BenchContext], turns: int, gate: Gate) -> float:
        async def play(context: BenchContext) -> None:
            await together(
                ask(context, turn, gate) for turn in range(turns) for ask in (self.act, self.respond)
            )

        return await self._timed(play, batch)

    async def act(self, context: BenchContext, turn: int, gate: Gate) -> None:
        async with gate.slot(Priority.FAST):
            sampling = self._sampling(self.fast, context, turn, "fast")
            await self.engine.generate(_own(context.fast_ids, turn, gate), sampling, Priority.FAST)

    async def respond(self, context: BenchContext, turn: int, gate: Gate) -> None:
        async with gate.slot(Priority.FULL):
            sampling = self._sampling(self.full, context, turn, "full")
            await self.engine.generate(_own(context.full_ids, turn, gate), sampling, Priority.FULL)

    def _sampling(self, tokens: int, context: BenchContext, turn: int, purpose: str) -> Sampling:
        seed = derive_seed(self.seed, context.task_id, turn, purpose)
        return Sampling(tokens, temperature=1.0, seed=seed, ignore_eos=True)

    @staticmethod
    async def _timed(play: Play, batch: Sequence[BenchContext]) -> float:
        clock = asyncio.get_running_loop().time
        begun = clock()
        await together(play(context) for context in batch)
        return clock() - begun


def _own(ids: tuple[int, ...], turn: int, gate: Gate) -> tuple[int, ...]:
    """The prompt with a beginning that no other turn has, of the same length: a number in two of its own tokens."""
    tokens = sorted(set(ids))
    one, other = tokens[0], tokens[-1]
    code, length = gate.number * _MOST_TURNS + turn, min(_BEGINNING, len(ids))
    return (*(other if code >> bit & 1 else one for bit in range(length)), *ids[length:])
