"""Playing one task: an actor advances an environment, turn by turn, and every visited context is announced.

Training, evaluation and measurements all play through here. Playing does not know how responses are generated; it only
hands out immutable context snapshots. Failures that belong to an episode (a prompt that cannot fit, an environment that
died) are recorded on it.

A task whose environment failed begins again on a fresh one. The attempt that counts has the seeds of the first one, and
whatever a failed attempt announced is taken back, so a batch comes out as if the environment had never failed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from actfirst.environments.base import AsyncEnvironment, EnvironmentPool
from actfirst.environments.rules import TransitionRules
from actfirst.errors import ActfirstError, EnvironmentFailure, EpisodeError, TaskError, WorkerLost
from actfirst.methods.acting import Acting, Actor, Ending, EpisodeTools, Move, Policy, TrainingPoint
from actfirst.reading import clean
from actfirst.records import Episode, Pair, Task, Turn, TurnContext
from actfirst.references.base import NoReferences, References
from actfirst.seeds import derive_seed

MOST_LOSSES: Final = 10
"""Maximum workers lost through no fault of the task: a run has to end even where everything hangs."""


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


class ContextSink:
    """Told of every context in the moment it is visited, and of the move made from it. This one does not listen."""

    def visited(self, key: EpisodeKey, context: TurnContext) -> None: ...

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None: ...

    def abandoned(self, key: EpisodeKey) -> None:
        """The episode begins again on a fresh environment: its contexts so far count for nothing."""


@dataclass(frozen=True)
class Player:
    """Who plays, and where. A task begins again at most `retries` times after a failure of its environment."""

    policy: Policy
    pool: EnvironmentPool
    rules: TransitionRules
    turn_limit: int
    references: References = field(default_factory=NoReferences)
    retries: int = 0

    async def play(
        self,
        key: EpisodeKey,
        acting: Acting,
        sink: ContextSink | None = None,
        *,
        depth: int | None = None,
        point: TrainingPoint | None = None,
    ) -> Episode:
        """Play until the environment ends, `depth` turns are used (None: the turn limit), the actor stops, or a
        failure is recorded. `point` is how far training is, for ways of acting that follow a schedule."""
        sink = sink or ContextSink()
        episode = Episode(key.id, key.task, key.batch, (), None, False, 0, 0.0)
        try:
            reference = self.references.get(key.task) if acting.needs_reference else None
        except (EnvironmentFailure, TaskError) as error:
            return replace(episode, error=_said(error))
        if acting.guides and reference is not None:
            episode = replace(episode, guided=True, reference_length=len(reference.steps))
        tools = EpisodeTools(self.policy, self.rules, reference, point or TrainingPoint())
        losses = 0
        for number in count(1):
            actor = acting.begin(tools)
            played, failure = await self._attempt(key, episode, actor, sink, depth or self.turn_limit)
            # An attempt that went down with a worker through no fault of its own does not count.
            losses += isinstance(failure, WorkerLost) and losses < MOST_LOSSES
            if not isinstance(failure, EnvironmentFailure) or number - losses > self.retries:
                break
            sink.abandoned(key)
        return replace(played, attempts=number)

    async def _attempt(
        self, key: EpisodeKey, episode: Episode, actor: Actor, sink: ContextSink, depth: int
    ) -> tuple[Episode, ActfirstError | None]:
        """Play once; returns the episode as it stood at the end, and the failure that is recorded on it."""
        try:
            async with self.pool.lease() as environment:
                return await self._turns(key, episode, actor, sink, depth, environment)
        except EnvironmentFailure as failure:  # no environment could be had
            return replace(episode, error=_said(failure)), failure

    async def _turns(
        self,
        key: EpisodeKey,
        episode: Episode,
        actor: Actor,
        sink: ContextSink,
        depth: int,
        environment: AsyncEnvironment,
    ) -> tuple[Episode, ActfirstError | None]:
        started = time.monotonic()
        turns: list[Turn] = []
        cause: ActfirstError | None = None
        try:
            instruction, observation = await environment.reset(key.task)
            episode = replace(episode, instruction=clean(instruction), final=observation)
            history: tuple[Pair, ...] = ()
            while not observation.done and len(turns) < depth and not actor.finished(len(turns) + 1):
                context = TurnContext(instruction, history, observation, len(turns) + 1)
                turn_started = time.monotonic()
                sink.visited(key, context)
                move = await actor.act(context, key.turn_seed(context.turn, "act"))
                if isinstance(move, Ending):
                    episode = replace(episode, unexecuted=move.requests)
                    break
                sink.moved(key, context, move)
                observation = await environment.step(move.action)
                turns.append(
                    Turn(
                        number=context.turn,
                        observation=context.observation.text,
                        action=move.action,
                        source=move.source,
                        valid=self.rules.valid(move.action, context.observation),
                        verdict=actor.observed(context, move, observation),
                        requests=move.requests,
                        response=move.response,
                        state=context.observation.state,
                        seconds=time.monotonic() - turn_started,
                        started=turn_started,
                        admissible=context.observation.admissible,
                        templates=context.observation.templates,
                        objects=context.observation.objects,
                        reference_next=move.reference_next,
                    )
                )
                episode = replace(episode, final=observation)
                history = (*history, Pair(context.observation.text, move.action))
        except (EpisodeError, EnvironmentFailure, TaskError) as failure:
            cause = failure
            episode = replace(episode, error=_said(failure))
        seconds = time.monotonic() - started
        return replace(episode, turns=tuple(turns), seconds=seconds, began=started), cause


def _said(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"
