"""`actfirst bench turns`: what a turn costs the driver of a run beside its requests, where engines answer at once.

Real rollouts of a recipe in its real world: prompts are rendered and tokenised, actions are read, environments are
stepped, responses are admitted and made into samples. The engine computes nothing: a fast action is one of the
admissible ones, a full response a fixed text. Processor time is that of the driver's whole process, so other work on
the machine does not count. With rollout drivers (`training/ray/drivers.py`) it is what is left for the run's own
process. Requests to engines of other processes come on top (`actfirst bench driver`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from actfirst.config.config import Config
from actfirst.engines.base import Priority, Sampling
from actfirst.environments.base import AsyncEnvironment, EnvironmentPool
from actfirst.errors import ConfigError
from actfirst.lab.spread import Spread, Told
from actfirst.methods.acting import TrainingPoint
from actfirst.policy.agent import Policy
from actfirst.policy.history import Prompt
from actfirst.records import Completion, EngineStats, Mode, Observation, StopReason, Task, TurnContext
from actfirst.rollout.collect import Collector
from actfirst.rollout.scoring import EngineTeacher
from actfirst.training.parts import Found, find_parts, open_collector

if TYPE_CHECKING:
    import torch

_THOUGHT = "<think>\n" + "I look for it where it usually is. " * 12 + "</think>\n\n<action>look</action>"
_NOTHING = EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class TurnCost:
    """Processor seconds of the run's own process for each turn, one value for each round: in all, and of that for
    prompts and for environments. `requests`: of a turn, to engine and teacher; `prompt`: tokens of a prompt."""

    drivers: int
    turns: int
    requests: float
    prompt: float
    seconds: tuple[float, ...]
    prompts: tuple[float, ...]
    environments: tuple[float, ...]


@dataclass
class _Spent:
    """Since the round began."""

    prompts: float = 0.0
    environments: float = 0.0
    made: int = 0
    tokens: int = 0


@dataclass
class Instant:
    """An engine that answers at once."""

    full: tuple[int, ...]
    requests: int = 0
    version: int = 0

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        self.requests += 1
        await asyncio.sleep(0)
        draft = sampling.draft
        possible = draft.possible if draft is not None else ()
        tokens = random.Random(sampling.seed).choice(possible) if possible else self.full
        return Completion(tokens, (-1.0,) * len(tokens), StopReason.EOS, 0)

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        self.requests += 1
        await asyncio.sleep(0)
        return (-1.0,) * len(token_ids)

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None: ...

    def stats(self) -> EngineStats:
        return _NOTHING

    async def close(self) -> None: ...


@dataclass(frozen=True)
class _TimedPolicy(Policy):
    spent: _Spent = field(default_factory=_Spent)

    def _prompt(self, mode: Mode, context: TurnContext, reference_observation: str | None = None) -> Prompt:
        begun = time.thread_time()
        prompt = super()._prompt(mode, context, reference_observation)
        self.spent.prompts += time.thread_time() - begun
        self.spent.made += 1
        self.spent.tokens += len(prompt.ids)
        return prompt


@dataclass(frozen=True)
class _TimedPool:
    """Environments of this process: a step does not let others go on."""

    inner: EnvironmentPool
    spent: _Spent

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[AsyncEnvironment]:
        async with self.inner.lease() as environment:
            yield _TimedEnvironment(environment, self.spent)

    async def close(self) -> None:
        await self.inner.close()


@dataclass(frozen=True)
class _TimedEnvironment:
    inner: AsyncEnvironment
    spent: _Spent

    async def reset(self, task: Task) -> tuple[str, Observation]:
        begun = time.thread_time()
        opening = await self.inner.reset(task)
        self.spent.environments += time.thread_time() - begun
        return opening

    async def step(self, action: str) -> Observation:
        begun = time.thread_time()
        observation = await self.inner.step(action)
        self.spent.environments += time.thread_time() - begun
        return observation


def measure(config: Config, drivers: Sequence[int], rounds: int, told: Told) -> list[TurnCost]:
    """Batches of a recipe by so many rollout drivers (0: the run's own process plays), in turn."""
    if config.pool.kind != "inline":
        raise ConfigError(
            f"pool.kind = {config.pool.kind}: what environments in other processes cost is no time of this one; "
            "set pool.kind=inline"
        )
    return asyncio.run(_measure(config, drivers, rounds, told))


async def _measure(config: Config, drivers: Sequence[int], rounds: int, told: Told) -> list[TurnCost]:
    found, spent = find_parts(config), _Spent()
    engine = Instant(tuple(found.encoder.encode_markup(_THOUGHT)))
    rows: dict[int, list[TurnCost]] = {count: [] for count in drivers}
    async with AsyncExitStack() as opened:
        collectors = {
            count: await opened.enter_async_context(_collector(found, engine, spent, count))
            for count in drivers
        }
        for number in range(rounds + 1):
            for count, collector in collectors.items():
                row = await _round(found, collector, engine, spent, number)
                if number:  # the first round warms up
                    rows[count].append(replace(row, drivers=count))
            told(number, rounds, "")
    return [_joined(costs) for costs in rows.values()]


@asynccontextmanager
async def _collector(found: Found, engine: Instant, spent: _Spent, drivers: int) -> AsyncIterator[Collector]:
    config, teacher = found.config, EngineTeacher(engine)
    stage = replace(found.stage, pool=_TimedPool(found.stage.pool, spent))
    policy = _TimedPolicy(engine, found.encoder, stage.templates, config.rollout.generation, spent)
    collector = open_collector(replace(found, stage=stage), policy, teacher, time.monotonic)
    if not drivers:
        yield collector
        return
    from actfirst.training.ray.cluster import Demands, cluster
    from actfirst.training.ray.drivers import start_drivers

    runtime = config.runtime.model_copy(update={"kind": "ray", "rollout_drivers": drivers})
    config = config.model_copy(update={"runtime": runtime})
    wanted = replace(Demands.of_players(config, 0), driver=Demands.of(config).driver)
    with cluster(runtime, wanted):
        started = start_drivers(config, found.student, engine, teacher)
        try:
            yield replace(collector, elsewhere=started.begin)
        finally:
            await started.close()


async def _round(found: Found, collector: Collector, engine: Instant, spent: _Spent, number: int) -> TurnCost:
    spent.prompts = spent.environments = 0.0
    spent.made = spent.tokens = 0
    requests, begun = engine.requests, time.process_time()
    tasks, point = found.order.batch(number), TrainingPoint(number, 0, 100)
    batch = await collector.collect(number, tasks, point)
    turns, seconds = batch.stats.transitions, time.process_time() - begun
    return TurnCost(
        drivers=0,
        turns=turns,
        requests=(engine.requests - requests) / turns,
        prompt=spent.tokens / max(1, spent.made),
        seconds=(seconds / turns,),
        prompts=(spent.prompts / turns,),
        environments=(spent.environments / turns,),
    )


def _joined(rounds: Sequence[TurnCost]) -> TurnCost:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    return TurnCost(
        drivers=rounds[0].drivers,
        turns=sum(one.turns for one in rounds),
        requests=mean([one.requests for one in rounds]),
        prompt=mean([one.prompt for one in rounds]),
        seconds=tuple(one.seconds[0] for one in rounds),
        prompts=tuple(one.prompts[0] for one in rounds),
        environments=tuple(one.environments[0] for one in rounds),
    )


def rows(found: Sequence[TurnCost]) -> list[dict[str, str]]:
    def milliseconds(values: Sequence[float]) -> str:
        return Spread.of([1e3 * value for value in values]).text(2) if any(values) else ""

    return [
        {
            "rollout drivers": str(one.drivers or "none"),
            "requests a turn": f"{one.requests:.2f}",
            "prompt tokens": f"{one.prompt:.0f}" if one.prompt else "",
            "run's process (ms a turn)": milliseconds(one.seconds),
            "of that prompts": milliseconds(one.prompts),
            "environments": milliseconds(one.environments),
            "turns / s at most": f"{1 / Spread.of(one.seconds).median:.0f}",
        }
        for one in found
    ]


def to_json(found: Sequence[TurnCost]) -> list[dict[str, object]]:
    return [asdict(one) for one in found]
