"""Rollout quality by acting strategy, from one frozen checkpoint (paper, Section 5.4 and appendix "Rollout Quality").

Think-then-act, direct action and guided action play the same tasks with the same sampling seeds for each task and turn;
guided action keeps the transition checks and the fallback of training. Nothing is trained, and no full response is
generated on the side. Metrics: tasks with an unproductive repetition, successful trajectories per 100 transitions, mean
turns.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from actfirst.lab.repetition import Step, exactly_valid, repetitions, share_with_repetition
from actfirst.methods.acting import Acting, Move
from actfirst.records import Episode, Task, TurnContext
from actfirst.rollout.play import ContextSink, EpisodeKey, Player
from actfirst.rollout.together import together
from actfirst.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class Played:
    """One trajectory. `repeated` lists its repetitions (None: the environment cannot tell states apart)."""

    task: str
    kind: str
    success: bool
    turns: int
    valid: int
    repeated: tuple[int, ...] | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Quality:
    """A strategy over all tasks. `repeat`, `success` and `valid` are percent, `per_100` is the paper's Yield."""

    tasks: int
    repeat: float | None
    per_100: float
    turns: float
    success: float
    valid: float

    def to_json(self) -> dict[str, object]:
        return {"yield" if key == "per_100" else key: value for key, value in asdict(self).items()}


class _Watching(ContextSink):
    """Notes for every move whether it was valid as this measurement takes it."""

    def __init__(self) -> None:
        self.valid: list[bool] = []

    def moved(self, key: EpisodeKey, context: TurnContext, move: Move) -> None:
        self.valid.append(exactly_valid(move.action, context.observation))

    def abandoned(self, key: EpisodeKey) -> None:
        self.valid.clear()


def summarise(played: Sequence[Played]) -> Quality:
    """The metrics of one strategy; failed trajectories and invalid attempts count like all others."""
    turns = sum(one.turns for one in played)
    return Quality(
        tasks=len(played),
        repeat=share_with_repetition([one.repeated for one in played]),
        per_100=100.0 * sum(one.success for one in played) / turns if turns else 0.0,
        turns=statistics.fmean(one.turns for one in played),
        success=100.0 * statistics.fmean(one.success for one in played),
        valid=100.0 * sum(one.valid for one in played) / turns if turns else 0.0,
    )


async def play_all(
    player: Player, acting: Acting, tasks: Sequence[Task], seed: int, at_once: int, told: Callable[[], None]
) -> list[Played]:
    """Every task once. The seed of a turn does not depend on the way of acting."""
    gate = asyncio.Semaphore(at_once)

    async def one(place: int, task: Task) -> Played:
        watching = _Watching()
        async with gate:
            key = EpisodeKey(0, place, task, derive_seed(seed, task.id))
            episode = await player.play(key, acting, watching)
        told()
        return describe(episode, watching.valid)

    return await together(one(place, task) for place, task in enumerate(tasks))


def describe(episode: Episode, valid: Sequence[bool]) -> Played:
    """What this measurement keeps of an episode; `valid` is the validity of each executed turn."""
    final = episode.final.text if episode.final is not None else ""
    texts = [*(turn.observation for turn in episode.turns), final]
    steps = [
        Step(turn.state, turn.action, correct, after)
        for turn, correct, after in zip(episode.turns, valid, texts[1:])
    ]
    found = repetitions(texts[0], steps)
    return Played(
        task=episode.task.id,
        kind=episode.task.kind,
        success=bool(episode.final and episode.final.success),
        turns=len(episode.turns),
        valid=sum(valid[: len(steps)]),
        repeated=None if found is None else tuple(found),
        error=episode.error,
    )
