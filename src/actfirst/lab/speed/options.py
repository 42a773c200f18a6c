"""`actfirst bench rollout-options`: what each option adds to real rollouts from one frozen checkpoint.

Every row plays the same batches of tasks with its own engine; rows alternate batch by batch. Costs are counted for each
response that is trained on, as a run would: an update takes `learner.batch_size` responses, and what is too old by the
version rule is lost. The first batch warms up and is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.engines.base import Engine
from actfirst.engines.open import open_engine
from actfirst.errors import ConfigError, RolloutError
from actfirst.lab.spread import Spread, Told, ratios
from actfirst.methods.acting import TrainingPoint
from actfirst.policy.render import read_templates
from actfirst.records import Task
from actfirst.rollout.collect import Collector, RolloutBatch
from actfirst.rollout.scoring import EngineTeacher
from actfirst.training.parts import find_parts, open_collector

_OFF = (
    "rollout.responses=all",
    "rollout.generation.drafts=false",
    "engine.prefix_caching=false",
    "engine.priority=false",
    "engine.preempt=false",
    "environment.prompts=paper",
)
ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("think-then-act", ("rollout.method=vanilla",)),
    ("act first, as in the paper", ("rollout.method=actfirst",)),
    ("+ admission", ("rollout.responses=admitted",)),
    ("+ shared prefixes", ("engine.prefix_caching=true",)),
    ("+ drafts", ("rollout.generation.drafts=true",)),
    ("+ fast first", ("engine.priority=true", "engine.preempt=true")),
    ("+ growing prompts", ("environment.prompts=growing",)),
)
"""Each row adds its settings to those of the rows before it; the first two differ in the method alone."""


@dataclass(frozen=True, slots=True)
class Round:
    """One batch of one row. `seconds` are wall-clock, `cpu` those of the process; `trained` counts responses."""

    seconds: float
    cpu: float
    contexts: int
    generated: int
    generated_tokens: int
    trained: int
    trained_tokens: int
    steps: int
    prefilled: int
    saved: int
    drafted: int
    accepted: int


@dataclass
class Row:
    """A row of the table: how it is set, and what its rounds cost."""

    name: str
    settings: tuple[str, ...]
    rounds: list[Round] = field(default_factory=list)

    def total(self, key: str) -> float:
        """The sum of a field over all rounds."""
        return sum(float(getattr(one, key)) for one in self.rounds)

    def per_response(self, key: str) -> list[float]:
        """`seconds` or `cpu` for each response trained on, round by round."""
        return [float(getattr(one, key)) / max(1, one.trained) for one in self.rounds]

    @property
    def waste(self) -> float:
        """Tokens of full responses generated for each one trained on."""
        return self.total("generated_tokens") / max(1, self.total("trained_tokens"))

    def speedup(self, base: Row, key: str = "seconds") -> Spread:
        return ratios(base.per_response(key), self.per_response(key))


class _Player:
    """Plays batches with the settings of one row and keeps count of what would be trained on."""

    def __init__(self, collector: Collector, engine: Engine, config: Config) -> None:
        self._collector = collector
        self._engine = engine
        self._batch_size = config.learner.batch_size
        self._updates = max(1, config.learner.max_version_lag + (0 if config.rollout.overlap else 1))
        self._expected = 0.0
        self._left: list[int] = []  # tokens of responses that wait for an update to fill

    async def play(self, index: int, tasks: Sequence[Task]) -> Round:
        before, cpu, begun = self._engine.stats(), time.process_time(), time.monotonic()
        batch = await self._collector.collect(
            index, tasks, TrainingPoint(), self._expected, buffered=len(self._left)
        )
        seconds, cpu, after = time.monotonic() - begun, time.process_time() - cpu, self._engine.stats()
        self._expected = float(batch.stats.contexts)
        trained = self._train(batch)
        return Round(
            seconds=seconds,
            cpu=cpu,
            contexts=batch.stats.contexts,
            generated=batch.stats.full_responses,
            generated_tokens=batch.stats.full_tokens,
            trained=len(trained),
            trained_tokens=sum(trained),
            steps=after.steps - before.steps,
            prefilled=after.prefilled_tokens - before.prefilled_tokens,
            saved=after.cached_tokens - before.cached_tokens,
            drafted=after.drafted_tokens - before.drafted_tokens,
            accepted=after.accepted_tokens - before.accepted_tokens,
        )

    def _train(self, batch: RolloutBatch) -> list[int]:
        """The tokens of each response that would now be trained on."""
        waiting = self._left + [len(sample.token_ids) for sample in batch.samples]
        updates = min(self._updates, len(waiting) // self._batch_size)
        trained = waiting[: updates * self._batch_size]
        # After as many updates as the version rule allows, the rest is stale.
        self._left = waiting[len(trained) :] if updates < self._updates else []
        return trained


def measure(recipe: str, overrides: Sequence[str], student: Path | None, rounds: int, told: Told) -> list[Row]:
    """Play `rounds` counted batches with every row."""
    return asyncio.run(_measure(recipe, overrides, student, rounds, told))


async def _measure(
    recipe: str, overrides: Sequence[str], student: Path | None, rounds: int, told: Told
) -> list[Row]:
    added: tuple[str, ...] = _OFF
    rows = [Row(name, added := (*added, *settings)) for name, settings in ROWS]
    configs = [resolve(recipe, [*row.settings, *overrides]) for row in rows]
    parts = find_parts(configs[-1])
    if parts.teacher is None:
        raise ConfigError("this measurement needs a teacher in this process: set models.teacher to its folder")
    opened: list[Engine] = [open_engine(configs[-1].teacher, parts.teacher)]
    players = []
    try:
        for config in configs:
            opened.append(engine := open_engine(config.engine, student or parts.student))
            shown = config.environment
            templates = read_templates(parts.stage.kind.prompts, shown.prompts, shown.templates)
            stage = replace(parts.stage, templates=templates)
            policy = stage.policy(engine, parts.encoder, config.rollout.generation)
            mine = replace(parts, config=config, stage=stage)
            collector = open_collector(mine, policy, EngineTeacher(opened[0]), time.monotonic)
            players.append(_Player(collector, engine, config))
        for index in range(rounds + 1):
            turn = list(zip(rows, players, strict=True))
            for place, (row, player) in enumerate(turn if index % 2 else turn[::-1], start=1):
                played = await player.play(index, parts.order.batch(index))
                done = index * len(rows) + place
                told(done, (rounds + 1) * len(rows), row.name + ("" if index else " (warms up, not counted)"))
                if index:
                    row.rounds.append(played)
    finally:
        for engine in opened:
            await engine.close()
        await parts.stage.pool.close()
    if not all(any(r.trained for r in row.rounds) for row in rows):
        raise RolloutError("a row trained on nothing: take more rounds, or lower learner.batch_size")
    return rows


def to_json(rows: Sequence[Row]) -> dict[str, object]:
    return {
        "rows": [
            {
                "name": row.name,
                "settings": list(row.settings),
                "seconds_per_trained_response": asdict(Spread.of(row.per_response("seconds"))),
                "speedup": asdict(row.speedup(rows[0])),
                "cpu_speedup": asdict(row.speedup(rows[0], "cpu")),
                "tokens_generated_per_token_trained": row.waste,
                "rounds": [asdict(one) for one in row.rounds],
            }
            for row in rows
        ]
    }
