"""Evaluates a model folder with a recipe's evaluation settings, as a stored result.

The protocol is `actfirst.evaluate`'s; this opens the parts for it and keeps what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from actfirst.config.sections import Config
from actfirst.engines.open import open_engine
from actfirst.evaluate.protocol import Evaluator, choose_tasks
from actfirst.evaluate.results import Evaluation
from actfirst.methods.acting import Plan, ThinkThenAct
from actfirst.policy.tokens import open_encoder
from actfirst.records import Episode
from actfirst.references.base import NoReferences
from actfirst.training.parts import open_references, open_stage


async def evaluate_model(
    config: Config, model: Path, told: Callable[[int, int], None], plan: Plan | None = None
) -> Evaluation:
    """Play the chosen tasks once per seed; `told` hears of episodes done and of all. Another `plan` than
    think-then-act is a measurement, not the protocol."""
    section, acting = config.evaluation, plan or ThinkThenAct()
    stage = open_stage(config.environment, config.pool)
    chosen = choose_tasks(stage.world, section.splits or stage.world.splits(), section.tasks_per_split)
    references = open_references(stage, config.references) if acting.needs_reference else NoReferences()
    engine = open_engine(config.engine, model)
    done = 0

    def count(episode: Episode, seed: int) -> None:
        nonlocal done
        done += 1
        told(done, len(chosen) * len(section.seeds))

    try:
        policy = stage.policy(engine, open_encoder(model), section.generation)
        limit = stage.world.turn_limit
        evaluator = Evaluator(
            stage.pool, stage.rules, limit, section.batch_tasks, acting, references, config.pool.retries
        )
        return await evaluator.evaluate(policy, chosen, section.seeds, count)
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
