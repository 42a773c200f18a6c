"""Evaluation by the paper's protocol: plain think-then-act, no references, one trajectory per task and seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from actfirst.environments.base import EnvironmentPool, World
from actfirst.environments.rules import TransitionRules
from actfirst.errors import ConfigError
from actfirst.evaluate.results import Evaluation, Outcome, summarise
from actfirst.methods.acting import EpisodeTools, Plan, Policy, Progress, ThinkThenAct
from actfirst.records import Episode, Task
from actfirst.references.base import NoReferences, References
from actfirst.rollout.attempts import play_leased
from actfirst.rollout.episode import EpisodeKey
from actfirst.rollout.together import together
from actfirst.seeds import derive_seed


@dataclass(frozen=True)
class Evaluator:
    """Plays tasks with a policy. Other ways of acting than think-then-act are for measurements only.

    A task whose environment failed begins again, at most `retries` times.
    """

    pool: EnvironmentPool
    rules: TransitionRules
    turn_limit: int
    batch_tasks: int
    acting: Plan = field(default_factory=ThinkThenAct)
    references: References = field(default_factory=NoReferences)
    retries: int = 0

    async def evaluate(
        self,
        policy: Policy,
        tasks: Sequence[Task],
        seeds: Sequence[int],
        on_episode: Callable[[Episode, int], None] | None = None,
    ) -> Evaluation:
        """Every task once per seed, at most `batch_tasks` at a time."""
        if not tasks:
            raise ConfigError("nothing to evaluate: the chosen splits hold no tasks")
        started = time.monotonic()
        gate = asyncio.Semaphore(self.batch_tasks)

        async def one(place: int, task: Task, seed: int) -> Outcome:
            async with gate:
                episode = await self._play(EpisodeKey(0, place, task, derive_seed(seed, task.id)), policy)
            if on_episode is not None:
                on_episode(episode, seed)
            return Outcome.of(episode, seed)

        outcomes = await together(one(place, task, seed) for seed in seeds for place, task in enumerate(tasks))
        return summarise(outcomes, time.monotonic() - started)

    async def _play(self, key: EpisodeKey, policy: Policy) -> Episode:
        reference = self.references.get(key.task) if self.acting.needs_reference else None
        tools = EpisodeTools(policy, self.rules, reference, Progress())
        return await play_leased(
            key,
            self.pool,
            lambda: self.acting.begin(tools),
            self.rules,
            self.turn_limit,
            retries=self.retries,
            reference=reference,
        )


def choose_tasks(world: World, splits: Sequence[str], per_split: int) -> list[Task]:
    """The tasks of `splits`; with `per_split`, that many of each, drawn once and for all."""
    chosen: list[Task] = []
    for split in splits:
        tasks = world.tasks(split)
        count = min(per_split or len(tasks), len(tasks))
        # Drawn, not strided: tasks may cycle through their kinds, and a stride would miss some.
        places = random.Random(0).sample(range(len(tasks)), count)
        chosen.extend(tasks[place] for place in sorted(places))
    return chosen
