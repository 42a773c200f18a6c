"""Rollout drivers: actors that play shares of a batch, where one process could not play all of it.

A driver renders and tokenises prompts, plays environments and reads actions. Engines and teachers belong to the run's
own process, which passes the drivers' requests on (`relay.py`): so routing, lost engines, swaps of weights and counters
are what they are without drivers. Buffer, admission, ledger and run folder stay there, too. A driver that is lost is
replaced, and its share is played again, with the same seeds; what it had generated was never delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from actfirst.config.config import Config
from actfirst.engines.base import Engine
from actfirst.errors import EngineError, RolloutError
from actfirst.methods.table import method_of
from actfirst.policy.tokens import open_encoder
from actfirst.references.base import NoReferences
from actfirst.rollout.play import Player
from actfirst.rollout.responses import Scorer
from actfirst.rollout.share import (
    Interaction,
    OnEpisode,
    Outcome,
    Playing,
    PlayingHere,
    Share,
    admitted_each,
    joined_interaction,
    joined_outcome,
)
from actfirst.rollout.stage import open_references, open_stage
from actfirst.rollout.together import cancelled, together
from actfirst.training.ray.calls import Lost, end, finished
from actfirst.training.ray.cluster import Demands, actors
from actfirst.training.ray.relay import Exchange, Granted, Relay, RelayTeacher, Wishes

_LOST_AT_MOST = 4


class RolloutActor:
    """One driver. Shares have numbers, because Ray does not promise to start calls in the order they were made in."""

    def __init__(self, config: Config, student: Path) -> None:
        self._config = config
        self._student = student
        self._relay = Relay()
        self._player: Player  # from `start` on
        self._playing: dict[int, PlayingHere] = {}
        self._calls: dict[int, asyncio.Task[Any]] = {}

    async def start(self) -> None:
        """Open the world, its references and the tokenizer."""
        self._player = await asyncio.to_thread(open_player, self._config, self._student, self._relay)

    async def wishes(self, granted: Granted) -> Wishes:
        return await self._relay.wishes(granted)

    async def granted(self, granted: Granted) -> None:
        self._relay.take(granted)

    async def interact(self, number: int, share: Share) -> Interaction:
        playing = self._playing[number] = PlayingHere(self._player, RelayTeacher(self._relay), share, None)
        self._calls[number] = asyncio.ensure_future(playing.interact())
        interaction: Interaction = await self._calls[number]
        return interaction

    async def finish(self, number: int, admitted: int) -> Outcome:
        self._calls[number] = asyncio.ensure_future(self._playing[number].finish(admitted))
        outcome: Outcome = await self._calls[number]
        del self._playing[number], self._calls[number]
        return outcome

    async def drop(self, number: int) -> None:
        """Nobody wants the share any more."""
        if (call := self._calls.pop(number, None)) is not None:
            await cancelled([call])
        if (playing := self._playing.pop(number, None)) is not None:
            await playing.cancel()


def open_player(config: Config, student: Path, engine: Engine) -> Player:
    """What plays in a driver, as it does in the run's own process."""
    stage = open_stage(config.environment, config.pool)
    needed = method_of(config.rollout.method, config.methods).acting.needs_reference
    references = open_references(stage, config.references) if needed else NoReferences()
    policy = stage.policy(engine, open_encoder(student), config.rollout.generation)
    return stage.player(policy, config.pool.retries, references)


def start_drivers(config: Config, student: Path, engine: Engine, teacher: Scorer) -> Drivers:
    demand = Demands.of(config).driver
    make = actors(RolloutActor, demand, 1)
    return Drivers(
        demand.count,
        lambda: make(config, student.absolute()),
        lambda actor: Exchange(actor, engine, teacher),
        config.runtime.call_seconds,
    )


class _Driver:
    """The process of one driver: it starts, and then its wishes are granted until it is lost."""

    def __init__(self, actor: Any, exchange: Exchange, call_seconds: float) -> None:
        self.actor = actor
        self._starting = asyncio.ensure_future(finished(actor.start.remote(), call_seconds))
        self._serving = asyncio.ensure_future(self._serve(exchange))

    async def answer(self, call: Callable[[], Any]) -> Any:
        """The answer to a call that is made when the driver is there. Without its wishes it would wait for ever."""
        await asyncio.wait([self._starting])
        self._starting.result()
        asking = asyncio.ensure_future(finished(call()))
        try:
            await asyncio.wait([asking, self._serving], return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else self._serving.result()
        finally:
            asking.cancel()

    async def close(self) -> None:
        await cancelled([self._starting, self._serving])
        end(self.actor)

    async def _serve(self, exchange: Exchange) -> None:
        await asyncio.wait([self._starting])
        await exchange.run()


class Drivers:
    """`start` makes an actor, `exchange` the other end of its relay. Drivers start when they are first needed."""

    def __init__(
        self,
        size: int,
        start: Callable[[], Any],
        exchange: Callable[[Any], Exchange],
        call_seconds: float = 3600.0,
    ) -> None:
        self._start = start
        self._exchange = exchange
        self._call_seconds = call_seconds
        self._drivers: list[_Driver | None] = [None] * size
        self._numbers = count()
        self.replaced = 0

    @property
    def actors(self) -> list[Any]:
        """The drivers that are up."""
        return [driver.actor for driver in self._drivers if driver is not None]

    def begin(self, share: Share, on_episode: OnEpisode | None) -> Playing:
        """All of a batch, divided over the drivers."""
        parts = share.divided(len(self._drivers))
        return _Divided([_Elsewhere(self, place, part) for place, part in enumerate(parts)], on_episode)

    def number(self) -> int:
        return next(self._numbers)

    def driver(self, place: int) -> _Driver:
        driver = self._drivers[place]
        if driver is None:
            actor = self._start()
            driver = self._drivers[place] = _Driver(actor, self._exchange(actor), self._call_seconds)
        return driver

    def has(self, place: int, driver: _Driver) -> bool:
        """Whether the driver is not replaced yet."""
        return self._drivers[place] is driver

    async def lost(self, place: int, driver: _Driver) -> None:
        """The next that asks for this place starts another one."""
        if self.has(place, driver):
            self._drivers[place] = None
            self.replaced += 1
            await driver.close()

    async def close(self) -> None:
        drivers, self._drivers = self._drivers, [None] * len(self._drivers)
        for driver in drivers:
            if driver is not None:
                await driver.close()


class _Elsewhere:
    """One share with one driver, or with the one after it."""

    def __init__(self, drivers: Drivers, place: int, share: Share) -> None:
        self._drivers = drivers
        self._place = place
        self._share = share
        self._number = drivers.number()
        self._with: _Driver | None = None

    async def interact(self) -> Interaction:
        interaction: Interaction = await self._until_there(self._interact)
        return interaction

    async def finish(self, admitted: int) -> Outcome:
        async def to_the_end(driver: _Driver) -> Any:
            if driver is not self._with:  # the one that had played it is lost
                await self._interact(driver)
            return await driver.answer(lambda: driver.actor.finish.remote(self._number, admitted))

        outcome: Outcome = await self._until_there(to_the_end)
        return outcome

    async def cancel(self) -> None:
        driver = self._with
        if driver is None or not self._drivers.has(self._place, driver):
            return
        try:
            await driver.answer(lambda: driver.actor.drop.remote(self._number))
        except (Lost, EngineError):
            await self._drivers.lost(self._place, driver)

    async def _interact(self, driver: _Driver) -> Any:
        self._with = driver
        return await driver.answer(lambda: driver.actor.interact.remote(self._number, self._share))

    async def _until_there(self, work: Callable[[_Driver], Any]) -> Any:
        for _ in range(_LOST_AT_MOST):
            driver = self._drivers.driver(self._place)
            try:
                return await work(driver)
            except Lost:
                await self._drivers.lost(self._place, driver)
        raise RolloutError(
            f"tasks of a batch lost {_LOST_AT_MOST} rollout drivers, one after the other; they are not played again"
        )


class _Divided:
    """A batch whose shares are played at the same time."""

    def __init__(self, shares: Sequence[_Elsewhere], on_episode: OnEpisode | None) -> None:
        self._shares = shares
        self._on_episode = on_episode
        self._interactions: list[Interaction] = []

    async def interact(self) -> Interaction:
        self._interactions = await together(share.interact() for share in self._shares)
        return joined_interaction(self._interactions)

    async def finish(self, admitted: int) -> Outcome:
        counts = admitted_each(self._interactions, admitted)
        pairs = zip(self._shares, counts, strict=True)
        outcome = joined_outcome(await together(share.finish(number) for share, number in pairs))
        for episode in outcome.episodes:
            if self._on_episode is not None:
                self._on_episode(episode)
        return outcome

    async def cancel(self) -> None:
        await asyncio.gather(*(share.cancel() for share in self._shares))
