"""The measurement of rollout quality as a whole: checkpoints times strategies, with its stored result.

A pair of checkpoint and strategy is stored when it is complete; a measurement that was stopped goes on with the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from actfirst.config.config import Config
from actfirst.errors import ConfigError
from actfirst.lab import stored
from actfirst.lab.drawing import draw_tasks
from actfirst.lab.quality import play_all, summarise
from actfirst.methods.strategies import Strategy
from actfirst.reading import read_json
from actfirst.rollout.play import Player
from actfirst.rollout.stage import Stage
from actfirst.training.playing import engines_of, in_play, open_player

Told = Callable[[str, int, int], None]
"""Told what is being played, the trajectories so far, and all of them."""


@dataclass(frozen=True)
class FrozenCheckpoint:
    """A model as it is called and where it lies; `update` is None where it is no checkpoint of a run."""

    name: str
    model: Path
    update: int | None = None


@dataclass(frozen=True)
class Workload:
    """How much is played: training tasks (0: all), the seed of the draws, and the ways of acting."""

    tasks: int
    seed: int = 42
    strategies: tuple[Strategy, ...] = tuple(Strategy)


def measure(
    config: Config,
    recipe: str,
    checkpoints: Sequence[FrozenCheckpoint],
    workload: Workload,
    out: Path,
    told: Told,
) -> None:
    """Play the strategies from all checkpoints and store the result in `out`."""
    head = {"recipe": recipe, "tasks": workload.tasks, "seed": workload.seed}
    rows = _read(out, {"kind": stored.BENCH_QUALITY, **head})

    async def play(checkpoint: FrozenCheckpoint, missing: Sequence[Strategy]) -> None:
        async with open_player(config, checkpoint.model, config.rollout.generation, references=True) as opened:
            for strategy in missing:
                rows.append(await _one(config, opened, checkpoint, strategy, workload, told))
                stored.store(out, stored.BENCH_QUALITY, {**head, "rows": rows})

    for checkpoint in checkpoints:
        done = {row["strategy"] for row in rows if row["checkpoint"] == checkpoint.name}
        if missing := [strategy for strategy in workload.strategies if strategy not in done]:
            asyncio.run(play(checkpoint, missing))


async def _one(
    config: Config,
    opened: tuple[Stage, Player],
    checkpoint: FrozenCheckpoint,
    strategy: Strategy,
    workload: Workload,
    told: Told,
) -> dict[str, object]:
    stage, player = opened
    numbers = count(1)
    tasks = draw_tasks(stage.world.tasks("train"), workload.tasks, workload.seed)
    played = await play_all(
        player,
        strategy.acting,
        tasks,
        workload.seed,
        in_play(config.evaluation, engines_of(config)),
        lambda: told(f"{strategy} from {checkpoint.name}", next(numbers), len(tasks)),
    )
    return {
        "checkpoint": checkpoint.name,
        "update": checkpoint.update,
        "strategy": strategy.value,
        **summarise(played).to_json(),
        "episodes": [asdict(one) for one in played],
    }


def _read(out: Path, wanted: Mapping[str, object]) -> list[dict[str, object]]:
    if not out.exists():
        return []
    found = read_json(out)
    differing = [key for key, value in wanted.items() if found.get(key) != value]
    if differing:
        raise ConfigError(
            f"{out} holds another measurement (other {', '.join(differing)}); name another file with --out, "
            "or remove that one"
        )
    rows: list[dict[str, object]] = found["rows"]
    return rows
