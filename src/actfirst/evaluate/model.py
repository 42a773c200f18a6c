"""A model folder that plays: opened for one command, and evaluated with a recipe's evaluation settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.sections import Generation
from actfirst.engines.open import open_engine
from actfirst.evaluate.protocol import choose_tasks, evaluate
from actfirst.methods.strategies import Strategy
from actfirst.policy.tokens import open_encoder
from actfirst.records import Episode
from actfirst.rollout.play import Player
from actfirst.rollout.stage import Stage, open_references, open_stage
from actfirst.runs.evaluations import Evaluation


@asynccontextmanager
async def open_player(
    config: Config, model: Path, limits: Generation | None = None, *, references: bool = False
) -> AsyncIterator[tuple[Stage, Player]]:
    """A recipe's world, and a model to play in it with its engine; by default within the limits of evaluation."""
    stage = open_stage(config.environment, config.pool)
    known = open_references(stage, config.references) if references else None
    engine = open_engine(config.engine, model)
    try:
        policy = stage.policy(engine, open_encoder(model), limits or config.evaluation.generation)
        yield stage, stage.player(policy, config.pool.retries, known)
    finally:
        await engine.close()
        await stage.pool.close()


async def evaluate_model(
    config: Config, model: Path, told: Callable[[int, int], None], strategy: Strategy = Strategy.THINK
) -> Evaluation:
    """Play the chosen tasks once per seed; `told` hears of episodes done and of all. Another strategy than
    think-then-act is a measurement, not the protocol."""
    section, acting = config.evaluation, strategy.acting
    async with open_player(config, model, references=acting.needs_reference) as (stage, player):
        splits = section.splits or stage.world.splits()
        chosen = choose_tasks(stage.world, splits, section.tasks_per_split)
        done = count(1)

        def played(episode: Episode, seed: int) -> None:
            told(next(done), len(chosen) * len(section.seeds))

        return await evaluate(player, chosen, section.seeds, section.batch_tasks, played, acting)


def evaluation_fields(
    config: Config, checkpoint: str, recipe: str, act: str, result: Evaluation
) -> dict[str, object]:
    """What a stored evaluation says beside its header."""
    section = config.evaluation
    return {
        "checkpoint": checkpoint,
        "recipe": recipe,
        "environment": config.environment.name,
        "act": act,
        "protocol": act == "think",
        "splits": list(section.splits),
        "tasks_per_split": section.tasks_per_split,
        "seeds": list(section.seeds),
        "result": result.to_json(),
    }
