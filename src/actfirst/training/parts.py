"""Where episodes are played: a world with its pool, rules and references. Nothing here runs a loop."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from actfirst.config.sections import (
    EnvironmentSection,
    Generation,
    PoolSection,
    ReferencesSection,
)
from actfirst.engines.base import Engine
from actfirst.environments.base import EnvironmentPool, World
from actfirst.environments.pool.pool import open_pool
from actfirst.environments.registry import hosting, open_world
from actfirst.environments.rule_table import RULES, TransitionRules
from actfirst.errors import ConfigError
from actfirst.methods.acting import Policy
from actfirst.policy.render import TEMPLATE_SETS
from actfirst.policy.tokens import PromptEncoder
from actfirst.references.base import References
from actfirst.references.live import LiveReferences
from actfirst.references.sources import BEST, own_sources
from actfirst.references.store import ReferenceStore


@dataclass(frozen=True)
class Stage:
    """Where episodes are played: a world, a pool of its environments, and its rules."""

    world: World
    pool: EnvironmentPool
    rules: TransitionRules
    environment: EnvironmentSection

    def policy(self, engine: Engine, encoder: PromptEncoder, limits: Generation) -> Policy:
        return Policy(engine, encoder, TEMPLATE_SETS[self.world.rules], limits)


def open_stage(section: EnvironmentSection, settings: PoolSection | None = None) -> Stage:
    """The world of a section, its pool (by default, what suits it) and its rules. No environment is opened yet."""
    world = open_world(section)
    registered: tuple[tuple[Collection[str], str], ...] = (
        (RULES, "transition rules"),
        (TEMPLATE_SETS, "prompt templates"),
    )
    for known, what in registered:
        if world.rules not in known:
            raise ConfigError(
                f"the environment {world.name} asks for the {what} {world.rules!r}, which nobody registered; "
                f"there are {', '.join(known)}"
            )
    return Stage(world, open_pool(section, settings or PoolSection(), world), RULES[world.rules], section)


def open_references(stage: Stage, settings: ReferencesSection) -> References:
    """The references of a world's tasks: a file, or what its tasks themselves say."""
    world = stage.world
    if settings.path:
        configuration = stage.environment.model_dump(mode="json")
        return ReferenceStore.open(Path(settings.path).expanduser(), world, configuration)
    fault = _why_not_live(stage, settings.source)
    if fault:
        raise ConfigError(
            f"references.path is empty, and {world.name} {fault}: make a file with `actfirst references build` and "
            "set references.path to it, or choose a method that needs no references"
        )
    return LiveReferences(world, settings.source)


def _why_not_live(stage: Stage, source: str) -> str:
    """Why references cannot be made while a run waits for them; empty if they can."""
    ways = own_sources(stage.world)
    if not ways:
        return "does not say how its tasks are solved"
    if source not in (BEST, *ways):
        return f"knows {', '.join(ways)}, not references.source = {source!r}"
    if hosting(stage.environment).processes:
        return "is played in processes of its own, so making them would hold a run up"
    return ""
