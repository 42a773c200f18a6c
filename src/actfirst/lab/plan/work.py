"""What a run has to do, in numbers: episodes with their turns and tokens, and how updates take their responses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeAlias

from actfirst.config.config import Config
from actfirst.errors import RunFolderError
from actfirst.methods.table import ResponseTiming, method_of, needs_teacher
from actfirst.runs.episodes import EpisodeLine, TurnLine


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """Tokens of a turn: its prompts, each of its fast actions, and a full response from its context."""

    prompt: int
    fast: tuple[int, ...]
    full: int


PlannedEpisode: TypeAlias = tuple[PlannedTurn, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is stated of episodes where no run tells: means, around which turns and full responses vary by half."""

    turns: int = 15
    prompt: int = 900
    pair: int = 60
    fast: int = 12
    full: int = 320

    def episodes(self, count: int, limit: int, seed: int = 0) -> tuple[PlannedEpisode, ...]:
        """`limit` is of turns."""
        draw = random.Random(seed)
        found = []
        for _ in range(count):
            turns = min(limit, max(1, round(self.turns * draw.uniform(0.5, 1.5))))
            found.append(
                tuple(
                    PlannedTurn(
                        self.prompt + self.pair * turn,
                        (self.fast,),
                        max(1, round(self.full * draw.uniform(0.5, 1.5))),
                    )
                    for turn in range(turns)
                )
            )
        return tuple(found)


def episodes_of(lines: Sequence[EpisodeLine]) -> tuple[PlannedEpisode, ...]:
    """The episodes that a run played. A context without a full response gets one of mean length."""
    known = [turn.response.tokens for line in lines for turn in line.turns if turn.response is not None]
    if not known:
        raise RunFolderError("no episode of the run has a full response yet: let it go on to its first update")
    mean = round(fmean(known))
    return tuple(tuple(_turn(turn, mean) for turn in line.turns) for line in lines if line.turns)


def _turn(turn: TurnLine, mean: int) -> PlannedTurn:
    prompts = [request.prompt_tokens for request in turn.requests]
    response = turn.response
    prompt = response.prompt_tokens if response is not None else prompts[0] if prompts else 1
    fast = tuple(max(1, request.tokens) for request in turn.requests)
    return PlannedTurn(prompt, fast, max(1, response.tokens if response is not None else mean))


@dataclass(frozen=True, slots=True)
class Plan:
    """A run. `inline`: full responses act. `budget`: how many responses a batch generates (None: of every context).
    `scored`: a teacher scores them. `checkpoint_every` counts updates. `drivers`: rollout drivers; 0: none."""

    tasks: int
    samples: int
    max_lag: int
    inline: bool
    budget: int | None
    scored: bool
    overlap: bool
    checkpoint_every: int
    engines: int
    teachers: int
    ranks: int
    drivers: int = 0

    @classmethod
    def of(cls, config: Config) -> Plan:
        method = method_of(config.rollout.method, config.methods)
        lag, size = config.learner.max_version_lag, config.learner.batch_size
        inline = method.responses is ResponseTiming.INLINE
        admitted = not inline and config.rollout.responses == "admitted"
        fresh = max(1, lag + (0 if config.rollout.overlap else 1))
        return cls(
            tasks=config.rollout.tasks_per_batch * config.rollout.group_size,
            samples=size,
            max_lag=lag,
            inline=inline,
            budget=size * fresh if admitted else None,
            scored=needs_teacher(config),
            overlap=config.rollout.overlap,
            checkpoint_every=config.checkpoint.every,
            engines=config.runtime.rollout_engines,
            teachers=config.runtime.teacher_replicas,
            ranks=config.runtime.learners,
            drivers=config.runtime.rollout_drivers,
        )

    def grown(self, factor: float) -> Plan:
        """As many tasks and samples more as there are GPUs more."""
        budget = None if self.budget is None else round(self.budget * factor)
        return replace(
            self, tasks=round(self.tasks * factor), samples=round(self.samples * factor), budget=budget
        )
