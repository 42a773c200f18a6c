"""Evaluation by the paper's protocol: plain think-then-act, no references, one trajectory per task and seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from actfirst.environments.base import World
from actfirst.errors import ConfigError
from actfirst.evaluate.results import summarise
from actfirst.methods.acting import Acting, ThinkThenAct
from actfirst.records import Episode, Task
from actfirst.rollout.play import EpisodeKey, Player
from actfirst.rollout.together import together
from actfirst.runs.evaluations import Evaluation, Outcome
from actfirst.seeds import derive_seed


async def evaluate(
    player: Player,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    at_once: int,
    on_episode: Callable[[Episode, int], None] | None = None,
    acting: Acting | None = None,
) -> Evaluation:
    """Every task once per seed, at most `at_once` at a time. Another `acting` than think-then-act is a measurement, not
    the protocol."""
    if not tasks:
        raise ConfigError("nothing to evaluate: the chosen splits hold no tasks")
    started = time.monotonic()
    gate = asyncio.Semaphore(at_once)

    async def one(place: int, task: Task, seed: int) -> Outcome:
        async with gate:
            key = EpisodeKey(0, place, task, derive_seed(seed, task.id))
            episode = await player.play(key, acting or ThinkThenAct())
        if on_episode is not None:
            on_episode(episode, seed)
        return Outcome.of(episode, seed)

    outcomes = await together(one(place, task, seed) for seed in seeds for place, task in enumerate(tasks))
    return summarise(outcomes, time.monotonic() - started)


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
