"""Evaluates a model folder with a recipe's evaluation settings, as a stored result.

The protocol is `actfirst.evaluate`'s; this opens the parts for it and keeps what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from actfirst.config.config import Config
from actfirst.evaluate.protocol import choose_tasks, evaluate
from actfirst.methods.strategies import Strategy
from actfirst.records import Episode
from actfirst.runs.evaluations import Evaluation
from actfirst.training.parts import open_encoder, open_engine, open_references, open_stage


async def evaluate_model(
    config: Config, model: Path, told: Callable[[int, int], None], strategy: Strategy = Strategy.THINK
) -> Evaluation:
    """Play the chosen tasks once per seed; `told` hears of episodes done and of all. Another strategy than
    think-then-act is a measurement, not the protocol."""
    section, acting = config.evaluation, strategy.acting
    stage = open_stage(config.environment, config.pool)
    chosen = choose_tasks(stage.world, section.splits or stage.world.splits(), section.tasks_per_split)
    references = open_references(stage, config.references) if acting.needs_reference else None
    engine = open_engine(config.engine, model)
    done = 0

    def count(episode: Episode, seed: int) -> None:
        nonlocal done
        done += 1
        told(done, len(chosen) * len(section.seeds))

    try:
        policy = stage.policy(engine, open_encoder(model), section.generation)
        player = stage.player(policy, config.pool.retries, references)
        return await evaluate(player, chosen, section.seeds, section.batch_tasks, count, acting)
    finally:
        await engine.close()
        await stage.pool.close()


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
