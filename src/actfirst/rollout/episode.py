"""One episode: an actor advances an environment, turn by turn, and every visited context is announced.

The episode does not know how responses are generated; it only hands out immutable context snapshots. Failures
that belong to it (a prompt that cannot fit, an environment that died) are recorded on it. Beginning again after the
failure of an environment is the business of `rollout.attempts`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from actfirst.environments.base import AsyncEnvironment
from actfirst.environments.rules import TransitionRules
from actfirst.errors import ActfirstError, EnvironmentFailure, EpisodeError, TaskError
from actfirst.methods.acting import Actor, Ending, Move
from actfirst.records import (
    Episode,
    FastAction,
    Observation,
    Pair,
    Reference,
    Task,
    Turn,
    TurnContext,
    Verdict,
)
from actfirst.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class EpisodeKey:
    """Where an episode stands: its rollout batch, its place in it, and the seed of all its draws."""

    batch: int
    index: int
    task: Task
    seed: int

    @property
    def id(self) -> str:
        return f"b{self.batch:05d}-{self.index:03d}"

    def turn_seed(self, turn: int, purpose: str) -> int:
        return derive_seed(self.seed, turn, purpose)


class ContextSink(Protocol):
    """Told of every context in the moment it is visited, and of the move made from it."""

    def visited(self, key: EpisodeKey, context: TurnContext) -> None: ...

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None: ...

    def abandoned(self, key: EpisodeKey) -> None:
        """The episode begins again on a fresh environment: its contexts so far count for nothing."""
        ...


class _Silent:
    def visited(self, key: EpisodeKey, context: TurnContext) -> None: ...

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None: ...

    def abandoned(self, key: EpisodeKey) -> None: ...


SILENT: ContextSink = _Silent()


async def play(
    key: EpisodeKey,
    environment: AsyncEnvironment,
    actor: Actor,
    rules: TransitionRules,
    depth: int,
    sink: ContextSink = SILENT,
    reference: Reference | None = None,
) -> Episode:
    """Play until the environment ends, `depth` turns are used, the actor stops, or a failure is recorded."""
    episode, _ = await attempt(key, environment, actor, rules, depth, sink, reference)
    return episode


async def attempt(
    key: EpisodeKey,
    environment: AsyncEnvironment,
    actor: Actor,
    rules: TransitionRules,
    depth: int,
    sink: ContextSink,
    reference: Reference | None,
) -> tuple[Episode, ActfirstError | None]:
    """Play once; returns the episode as it stood at the end, and the failure that is recorded on it."""
    started = time.monotonic()
    turns: list[Turn] = []
    observation: Observation | None = None
    cause: ActfirstError | None = None
    unexecuted: tuple[FastAction, ...] = ()
    try:
        instruction, observation = await environment.reset(key.task)
        history: tuple[Pair, ...] = ()
        while not observation.done and len(turns) < depth and not actor.finished(len(turns) + 1):
            context = TurnContext(instruction, history, observation, len(turns) + 1)
            turn_started = time.monotonic()
            sink.visited(key, context)
            move = await actor.act(context, key.turn_seed(context.turn, "act"))
            if isinstance(move, Ending):
                unexecuted = move.requests
                break
            sink.moved(key, context, move)
            observation = await environment.step(move.action)
            verdict = actor.observed(context, move, observation)
            turns.append(_turn(context, move, verdict, rules, time.monotonic() - turn_started))
            history = (*history, Pair(context.observation.text, move.action))
    except (EpisodeError, EnvironmentFailure, TaskError) as failure:
        cause = failure
    episode = Episode(
        id=key.id,
        task=key.task,
        batch=key.batch,
        turns=tuple(turns),
        final=observation,
        guided=reference is not None,
        reference_length=len(reference.steps) if reference else 0,
        seconds=time.monotonic() - started,
        error=_said(cause) if cause else None,
        unexecuted=unexecuted,
    )
    return episode, cause


def failed(key: EpisodeKey, failure: Exception) -> Episode:
    """An episode that could not begin."""
    return Episode(key.id, key.task, key.batch, (), None, False, 0, 0.0, _said(failure))


def _said(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"


def _turn(context: TurnContext, move: Move, verdict: Verdict, rules: TransitionRules, seconds: float) -> Turn:
    return Turn(
        number=context.turn,
        observation=context.observation.text,
        action=move.action,
        source=move.source,
        valid=rules.valid(move.action, context.observation),
        verdict=verdict,
        requests=move.requests,
        response=move.response,
        state=context.observation.state,
        seconds=seconds,
    )
