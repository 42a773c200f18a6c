"""How far models are from the teacher in the same contexts: what training closed, where success cannot tell yet.

The contexts are turns of reference trajectories of training tasks, so they are the same for every model. A model
answers each of them once by a full response, with the same seed, and the teacher scores it. The distance in a context
is the mean over generated tokens of (student - teacher), the sampled reverse KL. Contexts of one task are alike, so
intervals are over tasks (Student's t), and the difference to the first model is paired by task.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from random import Random

from actfirst.config.config import Config
from actfirst.engines.open import open_teacher
from actfirst.errors import ConfigError, EpisodeError
from actfirst.lab.drawing import draw_tasks
from actfirst.lab.paired import Interval, student_interval
from actfirst.lab.quality_bench import FrozenCheckpoint
from actfirst.lab.repetition import exactly_valid
from actfirst.methods.acting import Policy, ReplayReference
from actfirst.models.folder import resolve_model
from actfirst.records import Task, TurnContext
from actfirst.rollout.play import ContextSink, EpisodeKey, Player
from actfirst.rollout.scoring import EngineTeacher
from actfirst.rollout.together import together
from actfirst.runs.record import Record
from actfirst.seeds import derive_seed
from actfirst.training.playing import open_player
from actfirst.training.proofs import check_tokenizers

Told = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Workload:
    """Training tasks, contexts of each at most, and the seed of both draws and of all responses."""

    tasks: int
    per_task: int
    seed: int = 42


class Answer(Record):
    """What one model said in one context. `distance` is None where the prompt did not fit or nothing was generated."""

    task: str
    turn: int
    distance: float | None
    tokens: int
    admissible: bool


class DistanceRow(Record):
    """One model: nats per token, their change against the first model, and the share of listed actions (percent)."""

    model: str
    contexts: int
    distance: float
    interval: Interval | None
    change: float | None
    change_interval: Interval | None
    tokens: float
    admissible: float


class _Contexts(ContextSink):
    def __init__(self) -> None:
        self.found: list[TurnContext] = []

    def visited(self, key: EpisodeKey, context: TurnContext) -> None:
        self.found.append(context)

    def abandoned(self, key: EpisodeKey) -> None:
        self.found.clear()


def measure(
    config: Config, models: Sequence[FrozenCheckpoint], workload: Workload, told: Told
) -> dict[str, list[Answer]]:
    """What every model said in the same contexts, in the order in which they are named."""
    return {model.name: asyncio.run(_answers(config, model, workload, told)) for model in models}


def summarise(answers: Mapping[str, Sequence[Answer]]) -> list[DistanceRow]:
    """The distance of every model; raises ConfigError for one that never answered."""
    first = _by_task(next(iter(answers.values())))
    return [_row(name, found, first if place else {}) for place, (name, found) in enumerate(answers.items())]


def per_token(student: Sequence[float], teacher: Sequence[float], mask: Sequence[int]) -> float:
    """The sampled reverse KL of a response: the mean of (student - teacher) over the tokens that were generated."""
    return statistics.fmean(
        own - its for own, its, counts in zip(student, teacher, mask, strict=True) if counts
    )


async def _answers(config: Config, model: FrozenCheckpoint, workload: Workload, told: Told) -> list[Answer]:
    async with AsyncExitStack() as opened:
        stage, player = await opened.enter_async_context(
            open_player(config, model.model, config.rollout.generation, references=True)
        )
        if config.teacher.kind != "server":
            check_tokenizers(model.model, resolve_model(config.models.teacher, "models.teacher"))
        engine = open_teacher(config.teacher, config.models.teacher)
        opened.push_async_callback(engine.close)
        teacher = EngineTeacher(engine)
        tasks = draw_tasks(stage.world.tasks("train"), workload.tasks, workload.seed)
        asked = [
            (task, context)
            for place, task in enumerate(tasks)
            for context in await _drawn(player, EpisodeKey(0, place, task, workload.seed), workload)
        ]
        if not asked:
            raise ConfigError("none of the drawn tasks has a reference whose turns could be answered")
        done = count(1)

        async def one(task: Task, context: TurnContext) -> Answer:
            answer = await _answer(player.policy, teacher, task, context, workload.seed)
            told(next(done), len(asked), model.name)
            return answer

        return list(await together(one(*each) for each in asked))


async def _drawn(player: Player, key: EpisodeKey, workload: Workload) -> list[TurnContext]:
    """Some turns of a task's reference, the same for every model."""
    sink = _Contexts()
    await player.play(key, ReplayReference(), sink)
    chosen = Random(derive_seed(workload.seed, key.task.id)).sample(
        range(len(sink.found)), min(workload.per_task, len(sink.found))
    )
    return [sink.found[place] for place in sorted(chosen)]


async def _answer(
    policy: Policy, teacher: EngineTeacher, task: Task, context: TurnContext, seed: int
) -> Answer:
    try:
        response = await policy.respond(context, derive_seed(seed, task.id, context.turn))
    except EpisodeError:
        return Answer(task=task.id, turn=context.turn, distance=None, tokens=0, admissible=False)
    scores = (await teacher.score(response)).logprobs
    return Answer(
        task=task.id,
        turn=context.turn,
        distance=per_token(response.logprobs, scores, response.mask) if any(response.mask) else None,
        tokens=sum(response.mask),
        admissible=response.action is not None and exactly_valid(response.action, context.observation),
    )


def _by_task(answers: Sequence[Answer]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for one in answers:
        if one.distance is not None:
            found.setdefault(one.task, []).append(one.distance)
    return {task: statistics.fmean(values) for task, values in found.items()}


def _row(name: str, answers: Sequence[Answer], first: Mapping[str, float]) -> DistanceRow:
    own = _by_task(answers)
    if not own:
        raise ConfigError(f"{name} generated nothing in any of the {len(answers)} contexts")
    changes = [value - first[task] for task, value in own.items() if task in first]
    return DistanceRow(
        model=name,
        contexts=len(answers),
        distance=statistics.fmean(own.values()),
        interval=student_interval(list(own.values())),
        change=statistics.fmean(changes) if changes else None,
        change_interval=student_interval(changes),
        tokens=statistics.fmean(one.tokens for one in answers),
        admissible=100.0 * statistics.fmean(one.admissible for one in answers),
    )
