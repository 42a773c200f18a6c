"""A model folder that plays: opened for one command, and evaluated with a recipe's evaluation settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from actfirst.config.sections import Config, Generation
from actfirst.engines.open import open_engine
from actfirst.evaluate.protocol import Evaluator, choose_tasks
from actfirst.evaluate.results import Evaluation
from actfirst.methods.acting import Plan, Policy, ThinkThenAct
from actfirst.policy.tokens import open_encoder
from actfirst.records import Episode
from actfirst.references.base import NoReferences
from actfirst.training.parts import Stage, open_references, open_stage


@asynccontextmanager
async def open_player(
    config: Config, model: Path, limits: Generation | None = None
) -> AsyncIterator[tuple[Stage, Policy]]:
    """A recipe's world, and a model to play in it with its engine; by default within the limits of evaluation."""
    stage = open_stage(config.environment, config.pool)
    engine = open_engine(config.engine, model)
    try:
        yield stage, stage.policy(engine, open_encoder(model), limits or config.evaluation.generation)
    finally:
        await engine.close()
        await stage.pool.close()


def open_evaluator(stage: Stage, config: Config, plan: Plan | None = None) -> Evaluator:
    """What plays tasks as a recipe evaluates. Another `plan` than think-then-act is a measurement, not the protocol."""
    acting = plan or ThinkThenAct()
    return Evaluator(
        stage.pool,
        stage.rules,
        stage.world.turn_limit,
        config.evaluation.batch_tasks,
        acting,
        open_references(stage, config.references) if acting.needs_reference else NoReferences(),
        config.pool.retries,
    )


async def evaluate_model(
    config: Config, model: Path, told: Callable[[int, int], None], plan: Plan | None = None
) -> Evaluation:
    """Play the chosen tasks once per seed; `told` hears of episodes done and of all."""
    section = config.evaluation
    async with open_player(config, model) as (stage, policy):
        splits = section.splits or stage.world.splits()
        chosen = choose_tasks(stage.world, splits, section.tasks_per_split)
        done = count(1)

        def played(episode: Episode, seed: int) -> None:
            told(next(done), len(chosen) * len(section.seeds))

        return await open_evaluator(stage, config, plan).evaluate(policy, chosen, section.seeds, played)


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
