"""Requests of a rollout driver to engines that another process looks after, and their answers on the way back.

`Relay` is in the rollout driver: an engine and a teacher that pass every request on. `Exchange` is at the other end:
one call at a time waits there for requests and brings all that were made since, with whatever was answered meanwhile;
answers that come while it waits go in a call of their own, at once. So the busier the run, the fewer calls for each
request, as on a line to an engine (`line.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.errors import ActfirstError
from actfirst.records import Completion, EngineStats, Response, Scores
from actfirst.rollout.responses import Scorer
from actfirst.rollout.together import cancelled
from actfirst.training.ray.calls import finished, ours

if TYPE_CHECKING:
    import torch

_NOTHING = EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Asked:
    """A completion of the student."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    priority: Priority


Wish: TypeAlias = Asked | Response
"""What a driver asks for: a completion, or the teacher's scores of a response."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Made since the last ones, by their numbers, and numbers of those nobody waits for any more."""

    made: dict[int, Wish]
    unwanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Granted:
    """What was answered, by the numbers of the wishes."""

    results: dict[int, Any]
    failures: dict[int, ActfirstError]

    def __bool__(self) -> bool:
        return bool(self.results or self.failures)


class Relay:
    """The student's engine and the teacher, as a rollout driver sees them."""

    def __init__(self) -> None:
        self._numbers = count()
        self._awaited: dict[int, asyncio.Future[Any]] = {}
        self._made: dict[int, Wish] = {}
        self._unwanted: list[int] = []
        self._news = asyncio.Event()

    @property
    def version(self) -> int:
        raise NotImplementedError("a completion says its version; what engines have now, nobody here knows")

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        completion: Completion = await self._ask(Asked(tuple(prompt_ids), sampling, priority))
        return completion

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        raise NotImplementedError("a rollout driver asks the student for completions only")

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        raise NotImplementedError("weights do not pass through a rollout driver")

    def stats(self) -> EngineStats:
        return _NOTHING

    async def close(self) -> None: ...

    async def scores(self, response: Response) -> Scores:
        scores: Scores = await self._ask(response)
        return scores

    async def wishes(self, granted: Granted) -> Wishes:
        """Take answers; returns when something is wished for, with all that is."""
        self.take(granted)
        await self._news.wait()
        self._news.clear()
        found = Wishes(self._made, tuple(self._unwanted))
        self._made, self._unwanted = {}, []
        return found

    def take(self, granted: Granted) -> None:
        for number, result in granted.results.items():
            if (awaited := self._awaited.get(number)) is not None and not awaited.done():
                awaited.set_result(result)
        for number, failure in granted.failures.items():
            if (awaited := self._awaited.get(number)) is not None and not awaited.done():
                awaited.set_exception(failure)

    async def _ask(self, wish: Wish) -> Any:
        number = next(self._numbers)
        answer = self._awaited[number] = asyncio.get_running_loop().create_future()
        self._made[number] = wish
        self._news.set()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._made.pop(number, None) is None:
                self._unwanted.append(number)
                self._news.set()
            raise
        finally:
            del self._awaited[number]


@dataclass(frozen=True)
class RelayTeacher:
    """The teacher behind a relay."""

    relay: Relay

    async def score(self, response: Response) -> Scores:
        return await self.relay.scores(response)

    def busy_seconds(self) -> float:
        return 0.0


class Exchange:
    """Grants the wishes of one rollout driver, by the engine and the teacher of this process.

    `run` goes on until it is cancelled or a call to the driver fails, and raises what that raised.
    """

    def __init__(self, actor: Any, engine: Engine, teacher: Scorer) -> None:
        self._actor = actor
        self._engine = engine
        self._teacher = teacher
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._results: dict[int, Any] = {}
        self._failures: dict[int, ActfirstError] = {}
        self._soon = False  # whether `_send` is about to run
        self._sending: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        listening = asyncio.ensure_future(self._listen())
        try:
            ended, _ = await asyncio.wait([listening, self._failed], return_when=asyncio.FIRST_COMPLETED)
            for one in ended:
                one.result()
        finally:
            await cancelled([listening, *self._sending, *self._under_way.values()])

    async def _listen(self) -> None:
        while True:
            wishes: Wishes = await finished(self._actor.wishes.remote(self._granted()))
            for number in wishes.unwanted:
                if (task := self._under_way.pop(number, None)) is not None:
                    task.cancel()
            for number, wish in wishes.made.items():
                self._under_way[number] = asyncio.ensure_future(self._grant(number, wish))
            await asyncio.sleep(0)  # what is answered at once goes along

    async def _grant(self, number: int, wish: Wish) -> None:
        try:
            self._results[number] = await self._answer(wish)
        except ActfirstError as error:
            self._failures[number] = error
        except Exception as error:
            self._failures[number] = ours(error)
        self._under_way.pop(number, None)
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._send)

    def _answer(self, wish: Wish) -> Awaitable[Any]:
        if isinstance(wish, Asked):
            return self._engine.generate(wish.prompt_ids, wish.sampling, wish.priority)
        return self._teacher.score(wish)

    def _send(self) -> None:
        self._soon = False
        if granted := self._granted():  # else they went along with the call that waits
            call = asyncio.ensure_future(finished(self._actor.granted.remote(granted)))
            self._sending.add(call)
            call.add_done_callback(self._sent)

    def _sent(self, call: asyncio.Task[Any]) -> None:
        self._sending.discard(call)
        if not call.cancelled() and (error := call.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _granted(self) -> Granted:
        granted = Granted(self._results, self._failures)
        self._results, self._failures = {}, {}
        return granted
