"""A model folder that plays: opened for one command, and evaluated with a recipe's evaluation settings.

Paper, Table "Evaluation hyperparameters": one engine per GPU, so many runners per engine, a memory share of its own.
Where the recipe's parts are Ray actors, the engines of a command are such actors too; else it has one, in this process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.engine_sections import EngineSection
from actfirst.config.sections import EvaluationSection, Generation
from actfirst.engines.base import Engine
from actfirst.engines.open import open_engine
from actfirst.environments.base import EnvironmentPool
from actfirst.evaluate.protocol import choose_tasks, evaluate
from actfirst.methods.strategies import Strategy
from actfirst.policy.tokens import open_encoder
from actfirst.records import Episode
from actfirst.rollout.play import Player
from actfirst.rollout.stage import Stage, open_references, open_stage
from actfirst.runs.evaluations import Evaluation, WorldVersion


def engines_of(config: Config) -> int:
    """How many engines a command plays with."""
    return config.evaluation.engines or config.runtime.rollout_engines


def in_play(section: EvaluationSection, engines: int) -> int:
    """Tasks in play at once: one batch at most, and so many per engine."""
    return min(section.batch_tasks, engines * section.runners) if section.runners else section.batch_tasks


def engine_settings(config: Config) -> EngineSection:
    """The recipe's engine with the memory share of evaluation."""
    if not config.evaluation.memory:
        return config.engine
    vllm = config.engine.vllm.model_copy(update={"gpu_memory_utilization": config.evaluation.memory})
    return config.engine.model_copy(update={"vllm": vllm})


@asynccontextmanager
async def open_player(
    config: Config, model: Path, limits: Generation | None = None, *, references: bool = False
) -> AsyncIterator[tuple[Stage, Player]]:
    """A recipe's world, and a model to play in it with all engines; by default within the limits of evaluation."""
    stage = open_stage(config.environment, config.pool)
    known = open_references(stage, config.references) if references else None
    async with AsyncExitStack() as opened:
        engine, pool = await _open(config, model, stage, opened)
        stage = replace(stage, pool=pool)
        policy = stage.policy(engine, open_encoder(model), limits or config.evaluation.generation)
        yield stage, stage.player(policy, config.pool.retries, known)


async def _open(
    config: Config, model: Path, stage: Stage, opened: AsyncExitStack
) -> tuple[Engine, EnvironmentPool]:
    opened.push_async_callback(stage.pool.close)
    if engines_of(config) == 1:
        engine = open_engine(engine_settings(config), model)
        opened.push_async_callback(engine.close)
        return engine, stage.pool
    from actfirst.training.ray.cluster import Demands, cluster
    from actfirst.training.ray.environments import start_pool
    from actfirst.training.ray.fleet import start_fleet

    wanted = Demands.of_players(config, engines_of(config))
    opened.enter_context(cluster(config.runtime, wanted))
    fleet = start_fleet(wanted.engine, engine_settings(config), model, config.runtime)
    opened.push_async_callback(fleet.close)
    pool: EnvironmentPool = stage.pool
    if config.runtime.environment_workers:
        pool = start_pool(wanted.environment, config)
        opened.push_async_callback(pool.close)
    await fleet.open()
    return fleet, pool


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

        at_once = in_play(section, engines_of(config))
        result = await evaluate(player, chosen, section.seeds, at_once, played, acting)
        world = stage.world
        version = WorldVersion(
            name=world.name,
            fingerprint=world.fingerprint,
            turn_limit=world.turn_limit,
            settings=config.environment.model_dump(mode="json"),
            tasks={split: len(world.tasks(split)) for split in world.splits()},
            panel=WorldVersion.digest([task.id for task in chosen]),
        )
        return result.model_copy(update={"world": version})


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
