"""Opens the parts that every command needs: models, engines, encoders and worlds. Nothing here runs a loop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actfirst.acting import Policy
from actfirst.alignment import RULES, TransitionRules
from actfirst.config.models import (
    EngineSection,
    EnvironmentSection,
    Generation,
    ReferencesSection,
    TeacherSection,
)
from actfirst.engines.base import Engine
from actfirst.envs.base import World
from actfirst.envs.inline import EnvironmentPool, InlinePool
from actfirst.envs.registry import open_world
from actfirst.errors import ConfigError
from actfirst.prompts.render import TEMPLATE_SETS
from actfirst.prompts.tokens import PromptEncoder
from actfirst.references.base import References
from actfirst.references.sources import GameReferences, GameWorld
from actfirst.references.store import ReferenceStore


@dataclass(frozen=True)
class Stage:
    """Where episodes are played: a world, a pool of its environments, and its rules."""

    world: World
    pool: EnvironmentPool
    rules: TransitionRules

    def policy(self, engine: Engine, encoder: PromptEncoder, limits: Generation) -> Policy:
        return Policy(engine, encoder, TEMPLATE_SETS[self.world.rules], limits)


def open_stage(section: EnvironmentSection) -> Stage:
    world = open_world(section)
    return Stage(world, InlinePool(world), RULES[world.rules])


def open_references(stage: Stage, settings: ReferencesSection) -> References:
    """The references of a world's training tasks: a file, or what its games give."""
    if settings.path:
        return ReferenceStore.open(Path(settings.path).expanduser(), stage.world)
    return GameReferences(game_world(stage), settings.source)


def game_world(stage: Stage) -> GameWorld:
    """The world, if its games say how they are won."""
    from actfirst.envs.alfworld.world import AlfworldWorld
    from actfirst.envs.pocket.world import PocketWorld

    if not isinstance(stage.world, PocketWorld | AlfworldWorld):
        raise ConfigError(
            f"the tasks of {stage.world.name} carry no walkthroughs: set references.path to a reference file, "
            "or choose a method that needs no references"
        )
    return stage.world


def open_engine(settings: EngineSection | TeacherSection, model: Path, version: int = 0) -> Engine:
    """An engine over a checkpoint folder."""
    import torch

    from actfirst.engines.embedded import EmbeddedEngine, EmbeddedOptions

    options = EmbeddedOptions(
        max_concurrency=settings.max_concurrency,
        max_prefill_tokens=settings.max_prefill_tokens,
        prefix_caching=settings.prefix_caching,
        dtype=settings.dtype,
        threads=settings.threads or torch.get_num_threads(),
        version=version,
    )
    return EmbeddedEngine.from_pretrained(model, options)


def quiet_libraries() -> None:
    """No progress bars of other libraries in between: what a run shows is its own business."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def open_encoder(model: Path) -> PromptEncoder:
    from transformers import AutoTokenizer

    if not (model / "tokenizer.json").is_file():
        raise ConfigError(f"{model} has no tokenizer.json: copy the model's tokenizer files there")
    return PromptEncoder(AutoTokenizer.from_pretrained(str(model)))
