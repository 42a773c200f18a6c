"""The measurement of rollout quality as a whole: checkpoints times strategies, with its stored result.

A pair of checkpoint and strategy is stored when it is complete; a measurement that was stopped goes on with the rest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from actfirst.config.sections import Config
from actfirst.errors import ConfigError
from actfirst.evaluate.model import open_player
from actfirst.lab import stored
from actfirst.lab.drawing import draw_tasks
from actfirst.lab.quality import STRATEGIES, play_all, summarise
from actfirst.training.parts import open_references

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
    """How much is played: training tasks (0: all) and the seed of the draws."""

    tasks: int
    seed: int = 42


def measure(
    config: Config,
    recipe: str,
    checkpoints: Sequence[FrozenCheckpoint],
    workload: Workload,
    out: Path,
    told: Told,
) -> None:
    """Play all strategies from all checkpoints and store the result in `out`."""
    done = _read(out, recipe, workload)
    for checkpoint in checkpoints:
        for strategy in STRATEGIES:
            if not any((row["checkpoint"], row["strategy"]) == (checkpoint.name, strategy) for row in done):
                done.append(asyncio.run(_one(config, checkpoint, strategy, workload, told)))
                stored.store(out, stored.BENCH_QUALITY, _fields(recipe, workload, done))


async def _one(
    config: Config, checkpoint: FrozenCheckpoint, strategy: str, workload: Workload, told: Told
) -> dict[str, object]:
    numbers = count(1)
    async with open_player(config, checkpoint.model, config.rollout.generation) as (stage, policy):
        tasks = draw_tasks(stage.world.tasks("train"), workload.tasks, workload.seed)
        played = await play_all(
            stage,
            policy,
            open_references(stage, config.references),
            tasks,
            strategy,
            seed=workload.seed,
            at_once=config.evaluation.batch_tasks,
            retries=config.pool.retries,
            told=lambda: told(f"{strategy} from {checkpoint.name}", next(numbers), len(tasks)),
        )
    return {
        "checkpoint": checkpoint.name,
        "update": checkpoint.update,
        "strategy": strategy,
        **summarise(played).to_json(),
        "episodes": [one.to_json() for one in played],
    }


def _fields(recipe: str, workload: Workload, rows: Sequence[dict[str, object]]) -> dict[str, object]:
    return {"recipe": recipe, "tasks": workload.tasks, "seed": workload.seed, "rows": list(rows)}


def _read(out: Path, recipe: str, workload: Workload) -> list[dict[str, object]]:
    if not out.exists():
        return []
    found = json.loads(out.read_text(encoding="utf-8"))
    wanted = {"kind": stored.BENCH_QUALITY, "recipe": recipe, "tasks": workload.tasks, "seed": workload.seed}
    differing = [key for key, value in wanted.items() if found.get(key) != value]
    if differing:
        raise ConfigError(
            f"{out} holds another measurement (other {', '.join(differing)}); name another file with --out, "
            "or remove that one"
        )
    rows: list[dict[str, object]] = found["rows"]
    return rows
