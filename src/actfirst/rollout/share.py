"""Playing the tasks of a batch, all of them or one driver's share: interaction first, then the responses that are left.

Between the two somebody says how many responses are still admitted. Whoever plays only a share cannot know: the budget
is that of the batch. Episodes, ranks and seeds depend on a task's place in the batch, not on who plays it, so shares
can be put together to the batch that one driver would have played.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Protocol, TypeAlias

from actfirst.config.sections import SampleOrder
from actfirst.methods.acting import TrainingPoint
from actfirst.methods.objective import Scored
from actfirst.methods.table import Method, ResponseTiming
from actfirst.records import Episode, Task
from actfirst.rollout.play import EpisodeKey, Player
from actfirst.rollout.responses import AdmittedResponses, AllResponses, InlineResponses, Responses, Scorer
from actfirst.rollout.together import together
from actfirst.seeds import derive_seed

OnEpisode: TypeAlias = Callable[[Episode], None]


@dataclass(frozen=True)
class Share:
    """Tasks by their places in a batch, and how they are played.

    `eager` None: a response for every context, else the rank below which they begin at once. `scored`: the teacher is
    asked. `begun` is when the batch began, in seconds of the run's own clock.
    """

    batch: int
    tasks: tuple[tuple[int, Task], ...]
    seed: int
    method: Method
    point: TrainingPoint
    depth: int
    eager: float | None
    order: SampleOrder
    scored: bool
    begun: float

    def divided(self, parts: int) -> list[Share]:
        """By turns; none is empty."""
        shares = [replace(self, tasks=self.tasks[number::parts]) for number in range(parts)]
        return [share for share in shares if share.tasks]


@dataclass(frozen=True, slots=True)
class Interaction:
    """All episodes have ended: how many responses have begun, and the ranks of those that wait, the smallest first."""

    begun: int
    waiting: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Episodes in the order of their places, and what became of all responses: scored ones in order of episode and
    turn, and counts of the rest."""

    episodes: tuple[Episode, ...]
    scored: tuple[Scored, ...]
    discarded: Counter[str]
    contexts: int
    tokens: int
    failed: int


class Playing(Protocol):
    """A share under way. `interact`, then `finish`; whoever does not come that far cancels."""

    async def interact(self) -> Interaction: ...

    async def finish(self, admitted: int) -> Outcome:
        """Also the first `admitted` responses of those that wait."""
        ...

    async def cancel(self) -> None: ...


Begin: TypeAlias = Callable[[Share, OnEpisode | None], Playing]


class PlayingHere:
    """A share that is played in this process."""

    def __init__(self, player: Player, teacher: Scorer, share: Share, on_episode: OnEpisode | None) -> None:
        self._player = player
        self._share = share
        self._on_episode = on_episode
        self._responses = _responses(share, player, teacher if share.scored else None)
        self._started = time.monotonic()
        self._episodes: tuple[Episode, ...] = ()

    async def interact(self) -> Interaction:
        self._episodes = tuple(await together(self._play(place, task) for place, task in self._share.tasks))
        return Interaction(self._responses.begun, tuple(self._responses.waiting))

    async def finish(self, admitted: int) -> Outcome:
        responses = self._responses
        scored = await responses.finish(admitted)
        return Outcome(
            self._episodes,
            tuple(scored),
            responses.discarded,
            responses.contexts,
            responses.tokens,
            responses.failed,
        )

    async def cancel(self) -> None:
        await self._responses.cancel()

    async def _play(self, place: int, task: Task) -> Episode:
        share = self._share
        seed = derive_seed(share.seed, "episode", share.batch, place, task.id)
        key = EpisodeKey(share.batch, place, task, seed)
        played = await self._player.play(
            key, share.method.acting, self._responses, depth=share.depth, point=share.point
        )
        # Clocks of other machines begin elsewhere: what counts is how long it took.
        episode = replace(played, ended=share.begun + time.monotonic() - self._started)
        if self._on_episode is not None:
            self._on_episode(episode)
        return episode


def _responses(share: Share, player: Player, teacher: Scorer | None) -> Responses:
    if share.method.responses is ResponseTiming.INLINE:
        return InlineResponses(player.policy, teacher, share.order)
    if share.eager is None:
        return AllResponses(player.policy, teacher, share.order)
    return AdmittedResponses(player.policy, teacher, share.eager, share.order)


def admitted_each(found: Sequence[Interaction], admitted: int) -> list[int]:
    """How many of the first `admitted` of all that wait are those of each share."""
    ranks = sorted((rank, number) for number, one in enumerate(found) for rank in one.waiting)
    counts = Counter(number for _, number in ranks[:admitted])
    return [counts[number] for number in range(len(found))]


def joined_interaction(found: Sequence[Interaction]) -> Interaction:
    waiting = sorted(rank for one in found for rank in one.waiting)
    return Interaction(sum(one.begun for one in found), tuple(waiting))


def joined_outcome(found: Sequence[Outcome]) -> Outcome:
    """That of all shares that `Share.divided` made of one."""
    turns = zip_longest(*(share.episodes for share in found))
    scored = sorted((one for share in found for one in share.scored), key=lambda one: (one.episode, one.turn))
    discarded: Counter[str] = Counter()
    for share in found:
        discarded.update(share.discarded)
    return Outcome(
        tuple(episode for turn in turns for episode in turn if episode is not None),
        tuple(scored),
        discarded,
        sum(share.contexts for share in found),
        sum(share.tokens for share in found),
        sum(share.failed for share in found),
    )
