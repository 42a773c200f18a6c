"""What rollouts visit and what they teach, by stage of a task.

A stage is what the world's demonstrator would be about in a context: to search, to take, to heat, to bring it to its
place. Episodes of a run are replayed, so that the demonstrator sees what the student saw. How far student and teacher
are apart at a stage is the mean over stored responses of (student - teacher) per generated token, the sampled reverse
KL, in the first and in the last third of the updates: what there was to learn, and what is left of it.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from actfirst.config.load import resolve
from actfirst.environments.base import Environment
from actfirst.environments.registry import kind_of, open_world
from actfirst.environments.solving import Demonstrator
from actfirst.errors import ConfigError
from actfirst.lab.distance import per_token
from actfirst.records import Pair, TurnContext
from actfirst.runs.episodes import EpisodeLine
from actfirst.runs.record import Record
from actfirst.runs.run import Run, open_run
from actfirst.runs.run_folder import CONFIG

Told = Callable[[int, int, str], None]


class StageRow(Record):
    """One stage in one run: `share` of all visited contexts, `reached` of all episodes (both in percent), and the
    distance between student and teacher early and late, in nats per token (None: no stored response)."""

    run: str
    stage: str
    turns: int
    share: float
    reached: float
    responses: int
    early: float | None
    late: float | None


def measure(folder: Path, told: Told) -> list[StageRow]:
    """The stages of a run, the most visited first; raises ConfigError where the world has no demonstrator."""
    run = open_run(folder)
    config = resolve(folder / CONFIG, [])
    demonstrator = kind_of(config.environment).sources.demonstrator
    if demonstrator is None:
        raise ConfigError(f"{config.environment.name} has no demonstrator that could tell the stages of a task")
    environment = open_world(config.environment).open()
    episodes = [line for line in run.episodes() if line.turns]
    visited: dict[str, list[str]] = {}
    try:
        for place, line in enumerate(episodes, start=1):
            visited[line.id] = _stages(line, environment, demonstrator)
            told(place, len(episodes), folder.name)
    finally:
        environment.close()
    return _rows(run, visited)


def _stages(line: EpisodeLine, environment: Environment, demonstrator: Demonstrator) -> list[str]:
    instruction, seen = environment.reset(line.task)
    history: tuple[Pair, ...] = ()
    stages = []
    for turn in line.turns:
        stages.append(demonstrator(TurnContext(instruction, history, seen, turn.number)).stage)
        history = (*history, Pair(seen.text, turn.action))
        seen = environment.step(turn.action)
    return stages


def _rows(run: Run, visited: Mapping[str, list[str]]) -> list[StageRow]:
    turns = Counter(stage for stages in visited.values() for stage in stages)
    reached = Counter(stage for stages in visited.values() for stage in set(stages))
    distances: dict[str, list[tuple[int, float]]] = defaultdict(list)
    last = 1
    for line in run.responses():
        last = max(last, line.update)
        if line.teacher and any(line.mask) and line.episode in visited:
            distances[visited[line.episode][line.turn - 1]].append(
                (line.update, per_token(line.student, line.teacher, line.mask))
            )
    return [
        StageRow(
            run=run.folder.name,
            stage=stage,
            turns=count,
            share=100.0 * count / turns.total(),
            reached=100.0 * reached[stage] / len(visited),
            responses=len(distances[stage]),
            early=_mean([value for update, value in distances[stage] if 3 * update <= last]),
            late=_mean([value for update, value in distances[stage] if 3 * update > 2 * last]),
        )
        for stage, count in turns.most_common()
    ]


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None
