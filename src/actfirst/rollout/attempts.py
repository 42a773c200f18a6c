"""Episodes that outlive their environment: a task whose environment failed begins again on a fresh one.

The attempt that counts has the seeds of the first one, and whatever a failed attempt announced is taken back, so a
batch comes out as if the environment had never failed. After `retries` further attempts the failure is recorded on
the episode. An attempt that went down with a worker for another's fault is not one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

from actfirst.environments.base import EnvironmentPool
from actfirst.environments.rules import TransitionRules
from actfirst.errors import ActfirstError, EnvironmentFailure, WorkerLost
from actfirst.methods.acting import Actor
from actfirst.records import Episode, Reference
from actfirst.rollout.episode import SILENT, ContextSink, EpisodeKey, attempt, failed

MOST_LOSSES: Final = 10
"""So many workers may a task lose for another's fault: where everything hangs, a run is to end all the same."""


async def play_leased(
    key: EpisodeKey,
    pool: EnvironmentPool,
    begin: Callable[[], Actor],
    rules: TransitionRules,
    depth: int,
    *,
    retries: int,
    sink: ContextSink = SILENT,
    reference: Reference | None = None,
) -> Episode:
    """Play on a leased environment; `begin` makes a new actor for each attempt."""
    losses = 0
    for number in count(1):
        episode, failure = await _once(key, pool, begin(), rules, depth, sink, reference)
        if isinstance(failure, WorkerLost) and losses < MOST_LOSSES:
            losses += 1
        if not isinstance(failure, EnvironmentFailure) or number - losses > retries:
            break
        sink.abandoned(key)
    return replace(episode, attempts=number)


async def _once(
    key: EpisodeKey,
    pool: EnvironmentPool,
    actor: Actor,
    rules: TransitionRules,
    depth: int,
    sink: ContextSink,
    reference: Reference | None,
) -> tuple[Episode, ActfirstError | None]:
    try:
        async with pool.lease() as environment:
            return await attempt(key, environment, actor, rules, depth, sink, reference)
    except EnvironmentFailure as failure:  # no environment could be had
        return failed(key, failure), failure
