"""Where episodes are played: a world with its pool, rules and references. Nothing here runs a loop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actfirst.config.runtime_sections import PoolSection
from actfirst.config.sections import Generation, ReferencesSection
from actfirst.engines.base import Engine
from actfirst.environments.base import EnvironmentPool, EnvironmentSection, World
from actfirst.environments.pool.pool import open_pool
from actfirst.environments.registry import Kind, kind_of, open_world
from actfirst.environments.rules import TransitionRules
from actfirst.errors import ConfigError
from actfirst.methods.acting import Policy
from actfirst.policy.render import TemplateSet, read_templates
from actfirst.policy.tokens import PromptEncoder
from actfirst.references.base import NoReferences, References
from actfirst.references.live import LiveReferences
from actfirst.references.rollouts import ROLLOUTS, RolloutReferences
from actfirst.references.sources import BEST
from actfirst.references.store import ReferenceStore
from actfirst.rollout.play import Player


@dataclass(frozen=True)
class Stage:
    """Where episodes are played: a world of some kind, a pool of its environments, and its prompts."""

    kind: Kind
    world: World
    pool: EnvironmentPool
    templates: TemplateSet
    environment: EnvironmentSection

    @property
    def rules(self) -> TransitionRules:
        return self.kind.rules

    def policy(self, engine: Engine, encoder: PromptEncoder, limits: Generation) -> Policy:
        return Policy(engine, encoder, self.templates, limits)

    def player(self, policy: Policy, retries: int, references: References | None = None) -> Player:
        limit = self.world.turn_limit
        return Player(policy, self.pool, self.rules, limit, references or NoReferences(), retries)


def open_stage(section: EnvironmentSection, settings: PoolSection | None = None) -> Stage:
    """The world of a section and its pool (by default, what suits it). No environment is opened yet."""
    kind, world = kind_of(section), open_world(section)
    pool = open_pool(section, settings or PoolSection(), world)
    return Stage(kind, world, pool, read_templates(kind.prompts, section.prompts, section.templates), section)


def open_references(stage: Stage, settings: ReferencesSection) -> References:
    """The references of a world's tasks: a file, or what its tasks themselves say."""
    world = stage.world
    stored: References | None = None
    if settings.path:
        configuration = stage.environment.model_dump(mode="json")
        stored = ReferenceStore.open(Path(settings.path).expanduser(), world, configuration)
    if settings.source == ROLLOUTS:
        if stage.kind.hosting(stage.environment).processes:
            raise ConfigError(
                f'references.source = "rollouts": {world.name} is played in processes of its own, and rollouts are '
                "replayed in this one; let a teacher play with `actfirst references build --teacher` and set "
                "references.path"
            )
        return RolloutReferences(world, stored)
    if stored is not None:
        return stored
    fault = _why_not_live(stage, settings.source)
    if fault:
        raise ConfigError(
            f"references.path is empty, and {world.name} {fault}: make a file with `actfirst references build` and "
            "set references.path to it, or choose a method that needs no references"
        )
    return LiveReferences(stage.kind, world, settings.source)


def _why_not_live(stage: Stage, source: str) -> str:
    """Why references cannot be made while a run waits for them; empty if they can."""
    ways = stage.kind.sources.ways
    if not ways:
        return "does not say how its tasks are solved"
    if source not in (BEST, *ways):
        return f"knows {', '.join(ways)}, not references.source = {source!r}"
    if stage.kind.hosting(stage.environment).processes:
        return "is played in processes of its own, so making them would hold a run up"
    return ""
