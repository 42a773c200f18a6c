"""The training loop over planned parts: the same order of events as in `training/loop.py` and `rollout/collect.py`.

What is left out: evaluations, failures, prefix caches and drafts. Environments take the same time at every step.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice

from actfirst.lab.plan.costs import Costs
from actfirst.lab.plan.parts import Driver, PlannedEngine
from actfirst.lab.plan.work import Plan, PlannedEpisode, PlannedTurn
from actfirst.lab.rollout.simulated import run_in_virtual_time

_EAGER = 0.8  # as in rollout/collect.py
_ALONE = 2.0  # a remote call of its own costs the driver as much as so many requests in parcels


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means of the counted updates. `stages`: seconds of an update by what the loop waits for; together they are
    `seconds`. `busy`: percent of their time in which parts compute. `held`: seconds of an engine for each update in
    which it drains or installs weights."""

    seconds: float
    stages: dict[str, float]
    busy: dict[str, float]
    held: float
    generated: float
    idle_ranks: int

    @property
    def idle(self) -> float:
        """Seconds of each update in which an engine computes nothing."""
        return self.seconds * (1 - self.busy["engines"] / 100)


def simulate(
    plan: Plan, costs: Costs, episodes: Sequence[PlannedEpisode], updates: int = 8, warm_up: int = 2
) -> Outcome:
    """Play the run on a virtual clock; the first updates are not counted."""
    return run_in_virtual_time(_Run(plan, costs, episodes).train(warm_up, updates))


@dataclass(slots=True)
class _Sample:
    tokens: int
    version: int


@dataclass
class _Counts:
    """What has been spent so far."""

    at: float
    stages: dict[str, float]
    busy: dict[str, float]
    held: float
    generated: int


@dataclass
class _Run:
    plan: Plan
    costs: Costs
    episodes: Sequence[PlannedEpisode]
    version: int = 0
    generated: int = 0
    learning: float = 0.0
    idle_ranks: int = 0
    stages: dict[str, float] = field(default_factory=dict)
    samples: deque[_Sample] = field(default_factory=deque)
    expected: float = 0.0

    def __post_init__(self) -> None:
        self.engines = [PlannedEngine(self.costs.engine) for _ in range(self.plan.engines)]
        self.teachers = [PlannedEngine(self.costs.teacher) for _ in range(max(1, self.plan.teachers))]
        self.driver = Driver()
        self.players = [Driver() for _ in range(self.plan.drivers)]
        self.order: Iterator[PlannedEpisode] = cycle(self.episodes)
        self.ahead: asyncio.Task[list[_Sample]] | None = None

    async def train(self, warm_up: int, updates: int) -> Outcome:
        before = self.count()
        while self.version < warm_up + updates:
            if self.version == warm_up:
                before = self.count()
            while (taken := self.take()) is None:
                with self.stage("rollout"):
                    self.ahead = self.ahead or asyncio.ensure_future(self.batch())
                    arrived = await self.ahead
                self.ahead = None
                self.samples.extend(arrived)
                if self.plan.overlap:
                    self.ahead = asyncio.ensure_future(self.batch())
            with self.stage("update"):
                await self.update(taken)
            with self.stage("sync"):
                await asyncio.sleep(self.costs.transfer)
                for engine in self.engines:
                    engine.announce(self.version)
            if self.version % self.plan.checkpoint_every == 0:
                with self.stage("checkpoint"):
                    await asyncio.sleep(self.costs.checkpoint)
        outcome = self.outcome(before, updates)
        if self.ahead is not None:
            self.ahead.cancel()
        return outcome

    def take(self) -> list[_Sample] | None:
        self.samples = deque(s for s in self.samples if self.version - s.version <= self.plan.max_lag)
        if len(self.samples) < self.plan.samples:
            return None
        return [self.samples.popleft() for _ in range(self.plan.samples)]

    async def update(self, samples: Sequence[_Sample]) -> None:
        """Whole sequences, the longest first, each to the rank that has least; all wait for the one that has most."""
        ranks = [0] * self.plan.ranks
        for sample in sorted(samples, key=lambda one: one.tokens, reverse=True):
            heapq.heapreplace(ranks, ranks[0] + sample.tokens)
        self.idle_ranks = ranks.count(0)
        seconds = self.costs.update + self.costs.token * max(ranks)
        self.learning += seconds
        await asyncio.sleep(seconds)
        self.version += 1

    async def batch(self) -> list[_Sample]:
        """All tasks at once; responses beside them; the batch is complete when all of it is."""
        plan, eager = self.plan, self._eager()
        waiting: list[tuple[int, PlannedTurn]] = []
        responses: list[asyncio.Task[_Sample]] = []
        contexts = 0

        async def play(number: int, episode: PlannedEpisode) -> None:
            nonlocal contexts
            for turn in episode:
                contexts += 1
                if plan.inline:
                    version = await self.generate(number, turn.prompt, turn.full, fast=False)
                    responses.append(asyncio.ensure_future(self.score(number, turn, version)))
                else:
                    # Spread evenly: which contexts are drawn has no effect on what the draw costs.
                    if plan.budget is None or (contexts * eager) // 1 > ((contexts - 1) * eager) // 1:
                        responses.append(asyncio.ensure_future(self.respond(number, turn)))
                    else:
                        waiting.append((number, turn))
                    for tokens in turn.fast:
                        await self.generate(number, turn.prompt, tokens, fast=True)
                if self.costs.environment_calls:
                    await self.driver.spend(_ALONE * self.costs.request)
                await asyncio.sleep(self.costs.environment)

        drawn = islice(self.order, plan.tasks)
        await asyncio.gather(*(play(number, episode) for number, episode in enumerate(drawn)))
        self.expected = 0.5 * (self.expected + contexts) if self.expected else float(contexts)
        left = 0 if plan.budget is None or plan.inline else max(0, plan.budget - len(responses))
        responses += [asyncio.ensure_future(self.respond(*one)) for one in waiting[:left]]
        return list(await asyncio.gather(*responses))

    async def drive(self, number: int) -> None:
        """What a request of an episode takes before it is made."""
        costs = self.costs
        if self.players:
            await self.players[number % len(self.players)].spend(costs.prepare)
        await self.driver.spend((costs.relayed if self.players else costs.prepare) + costs.request)

    async def respond(self, number: int, turn: PlannedTurn) -> _Sample:
        version = await self.generate(number, turn.prompt, turn.full, fast=False)
        return await self.score(number, turn, version)

    async def score(self, number: int, turn: PlannedTurn, version: int) -> _Sample:
        self.generated += 1
        if self.plan.scored:
            await self.drive(number)
            teacher = min(self.teachers, key=lambda one: one.under_way)
            await teacher.ask(turn.prompt + turn.full, 1)
        return _Sample(turn.prompt + turn.full, version)

    async def generate(self, number: int, prompt: int, tokens: int, *, fast: bool) -> int:
        """`number` is that of the episode: which rollout driver plays it."""
        await self.drive(number)
        engine = min(self.engines, key=lambda one: one.under_way)
        return await engine.ask(prompt, tokens, fast=fast)

    def _eager(self) -> float:
        return _EAGER * self.plan.budget / self.expected if self.plan.budget and self.expected else 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        yield
        self.stages[name] = self.stages.get(name, 0.0) + loop.time() - begun

    def count(self) -> _Counts:
        busy = {
            "engines": sum(engine.busy for engine in self.engines) / len(self.engines),
            "teachers": sum(teacher.busy for teacher in self.teachers) / len(self.teachers),
            "learner": self.learning,
            "driver": self.driver.busy,
        }
        held = sum(engine.held for engine in self.engines) / len(self.engines)
        return _Counts(asyncio.get_running_loop().time(), dict(self.stages), busy, held, self.generated)

    def outcome(self, before: _Counts, updates: int) -> Outcome:
        after = self.count()
        elapsed = after.at - before.at
        return Outcome(
            seconds=elapsed / updates,
            stages={
                name: (spent - before.stages.get(name, 0.0)) / updates for name, spent in after.stages.items()
            },
            busy={part: 100 * (spent - before.busy[part]) / elapsed for part, spent in after.busy.items()},
            held=(after.held - before.held) / updates,
            generated=(after.generated - before.generated) / updates,
            idle_ranks=self.idle_ranks,
        )
