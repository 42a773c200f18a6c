"""Rollout quality by acting strategy, from one frozen checkpoint (paper, Section 5.4 and appendix "Rollout Quality").

Think-then-act, direct action and guided action play the same tasks with the same sampling seeds for each task and turn;
guided action keeps the transition checks and the fallback of training. Nothing is trained, and no full response is
generated on the side. Metrics: tasks with an unproductive repetition, successful trajectories per 100 transitions, mean
turns. Beside the paper's: how many fast actions can be read and how long they are, by mode, and how far guided
trajectories follow their references.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from actfirst.lab.repetition import Step, exactly_valid, repetitions, share_with_repetition
from actfirst.methods.acting import Acting, Move
from actfirst.records import Episode, Mode, Task, TurnContext
from actfirst.rollout.play import ContextSink, EpisodeKey, Player
from actfirst.rollout.together import together
from actfirst.runs.lines import AlignmentCounts
from actfirst.seeds import derive_seed

FAST_MODES = (Mode.INVERSE_DYNAMICS, Mode.NEXT_ACTION)


@dataclass(frozen=True, slots=True)
class FastActions:
    """Fast actions of one mode: how many were asked for, how many of them could be read, and the tokens of all."""

    asked: int = 0
    parsed: int = 0
    tokens: int = 0

    @property
    def parsed_share(self) -> float | None:
        return 100.0 * self.parsed / self.asked if self.asked else None

    @property
    def tokens_each(self) -> float | None:
        return self.tokens / self.asked if self.asked else None


@dataclass(frozen=True, slots=True)
class Played:
    """One trajectory. `repeated` lists its repetitions (None: the environment cannot tell states apart).

    `alignment` holds the fields of `AlignmentCounts`.
    """

    task: str
    kind: str
    success: bool
    turns: int
    valid: int
    repeated: tuple[int, ...] | None
    error: str | None
    fast: Mapping[str, FastActions] = field(default_factory=dict)
    alignment: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Quality:
    """A strategy over all tasks. `repeat`, `success` and `valid` are percent, `per_100` is the paper's Yield.

    `parsed` (percent) and `fast_tokens` (each) are of fast actions, also by mode; `first_action` and `full_trajectory`
    (percent) are the alignment of guided trajectories. None where there are none.
    """

    tasks: int
    repeat: float | None
    per_100: float
    turns: float
    success: float
    valid: float
    parsed: float | None
    fast_tokens: float | None
    first_action: float | None
    full_trajectory: float | None
    modes: Mapping[str, Mapping[str, float | None]]

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
    modes = {mode.value: _sum(one.fast.get(mode, FastActions()) for one in played) for mode in FAST_MODES}
    fast = _sum(modes.values())
    alignment = AlignmentCounts.sum(AlignmentCounts(**one.alignment) for one in played).rates()
    return Quality(
        tasks=len(played),
        repeat=share_with_repetition([one.repeated for one in played]),
        per_100=100.0 * sum(one.success for one in played) / turns if turns else 0.0,
        turns=statistics.fmean(one.turns for one in played),
        success=100.0 * statistics.fmean(one.success for one in played),
        valid=100.0 * sum(one.valid for one in played) / turns if turns else 0.0,
        parsed=fast.parsed_share,
        fast_tokens=fast.tokens_each,
        first_action=alignment.get("first_action"),
        full_trajectory=alignment.get("full_trajectory"),
        modes={
            mode: {"asked": used.asked, "parsed": used.parsed_share, "tokens": used.tokens_each}
            for mode, used in modes.items()
            if used.asked
        },
    )


def _sum(parts: Iterable[FastActions]) -> FastActions:
    known = list(parts)
    return FastActions(
        sum(one.asked for one in known), sum(one.parsed for one in known), sum(one.tokens for one in known)
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
    requests = [*(request for turn in episode.turns for request in turn.requests), *episode.unexecuted]
    return Played(
        task=episode.task.id,
        kind=episode.task.kind,
        success=bool(episode.final and episode.final.success),
        turns=len(episode.turns),
        valid=sum(valid[: len(steps)]),
        repeated=None if found is None else tuple(found),
        error=episode.error,
        fast={
            mode.value: _sum(
                FastActions(1, request.action is not None, request.token_count)
                for request in requests
                if request.mode is mode
            )
            for mode in FAST_MODES
        },
        alignment=AlignmentCounts.of([episode]).model_dump(),
    )
