"""The measurement of rollout quality as a whole: checkpoints times strategies, with its stored result.

A pair of checkpoint and strategy is stored when it is complete; a measurement that was stopped goes on with the rest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from actfirst.config.config import Config
from actfirst.errors import ConfigError
from actfirst.evaluate.model import open_player
from actfirst.lab import stored
from actfirst.lab.drawing import draw_tasks
from actfirst.lab.quality import play_all, summarise
from actfirst.methods.strategies import Strategy

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
    for checkpoint in checkpoints:
        for strategy in workload.strategies:
            if not any((row["checkpoint"], row["strategy"]) == (checkpoint.name, strategy) for row in rows):
                rows.append(asyncio.run(_one(config, checkpoint, strategy, workload, told)))
                stored.store(out, stored.BENCH_QUALITY, {**head, "rows": rows})


async def _one(
    config: Config, checkpoint: FrozenCheckpoint, strategy: Strategy, workload: Workload, told: Told
) -> dict[str, object]:
    numbers = count(1)
    limits = config.rollout.generation
    async with open_player(config, checkpoint.model, limits, references=True) as (stage, player):
        tasks = draw_tasks(stage.world.tasks("train"), workload.tasks, workload.seed)
        played = await play_all(
            player,
            strategy.acting,
            tasks,
            workload.seed,
            config.evaluation.batch_tasks,
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
    found = json.loads(out.read_text(encoding="utf-8"))
    differing = [key for key, value in wanted.items() if found.get(key) != value]
    if differing:
        raise ConfigError(
            f"{out} holds another measurement (other {', '.join(differing)}); name another file with --out, "
            "or remove that one"
        )
    rows: list[dict[str, object]] = found["rows"]
    return rows
