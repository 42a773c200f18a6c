"""Makes the parts of a run on a cluster that `cluster` has opened. Nothing here waits for them to be up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from actfirst.config.config import Config
from actfirst.config.sections import EngineSection, TeacherSection
from actfirst.training.ray.cluster import Demand, Demands, actor_options
from actfirst.training.ray.engine_actor import EngineActor
from actfirst.training.ray.environments import EnvironmentActor, RayPool
from actfirst.training.ray.fleet import Fleet
from actfirst.training.ray.learner import RankActor, RayLearner


def make_fleet(
    demand: Demand,
    settings: EngineSection | TeacherSection,
    model: Path,
    version: int = 0,
    request_seconds: float = 1800.0,
) -> Fleet:
    """Engines over a checkpoint folder that every machine can read."""
    start = _starter(EngineActor, demand, settings.threads, settings, model.absolute(), version)
    return Fleet(demand.name, demand.count, version, start, settings.max_concurrency, request_seconds)


def make_pool(demand: Demand, config: Config) -> RayPool:
    return RayPool(demand.count, _starter(EnvironmentActor, demand, 1, config.environment, config.pool))


def make_learner(config: Config, checkpoints: Path) -> RayLearner:
    actor = ray.remote(RankActor)
    options = actor_options(Demands.of(config).learner, config.learner.threads, serial=True)
    return RayLearner(config, checkpoints, lambda rank, ranks: actor.options(**options).remote(rank, ranks))


def _starter(kind: type, demand: Demand, threads: int, *arguments: object) -> Callable[[], Any]:
    """Makes actors of one kind."""
    actor, options = ray.remote(kind), actor_options(demand, threads)
    return lambda: actor.options(**options).remote(*arguments)
