"""The two schedules that are timed, and the two that bound them. All wait until every request of a batch has ended.

Vanilla: a task's next turn waits for its full response. ActFirst: the fast action and the full response of a turn are
submitted together, and the fast action alone releases the next turn. Full responses have the same seeds in both.

What ActFirst cannot do without, on this engine: `chain`, its fast actions one after the other and a last response, with
nothing else under way; and `flood`, all its requests without any dependency, which keeps the engine saturated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.measure.rollout.contexts import BenchContext
from actfirst.measure.rollout.gate import Gate
from actfirst.rollout.together import together
from actfirst.seeds import derive_seed

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
            await self.engine.generate(context.fast_ids, sampling, Priority.FAST)

    async def respond(self, context: BenchContext, turn: int, gate: Gate) -> None:
        async with gate.slot(Priority.FULL):
            sampling = self._sampling(self.full, context, turn, "full")
            await self.engine.generate(context.full_ids, sampling, Priority.FULL)

    def _sampling(self, tokens: int, context: BenchContext, turn: int, purpose: str) -> Sampling:
        seed = derive_seed(self.seed, context.task_id, turn, purpose)
        return Sampling(tokens, temperature=1.0, seed=seed, ignore_eos=True)

    @staticmethod
    async def _timed(play: Play, batch: Sequence[BenchContext]) -> float:
        clock = asyncio.get_running_loop().time
        begun = clock()
        await together(play(context) for context in batch)
        return clock() - begun
