"""Opens the parts that every command needs: models, engines, encoders and worlds. Nothing here runs a loop."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.sections import EngineSection, Generation, PoolSection, ReferencesSection, TeacherSection
from actfirst.engines.base import Engine
from actfirst.environments.base import EnvironmentPool, EnvironmentSection, World
from actfirst.environments.pool.pool import open_pool
from actfirst.environments.registry import Kind, kind_of, open_world
from actfirst.environments.rules import TransitionRules
from actfirst.errors import ConfigError
from actfirst.methods.acting import Policy
from actfirst.models.folder import resolve_model
from actfirst.policy.render import TemplateSet, read_templates
from actfirst.policy.tokens import PromptEncoder
from actfirst.references.base import NoReferences, References
from actfirst.references.live import LiveReferences
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
    return Stage(kind, world, pool, read_templates(kind.prompts), section)


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


def open_engine(settings: EngineSection | TeacherSection, model: Path, version: int = 0) -> Engine:
    """An engine of this run over a checkpoint folder."""
    import torch

    threads = settings.threads or torch.get_num_threads()
    if settings.kind == "vllm":
        return _open_vllm(settings, model, threads, version)
    from actfirst.engines.embedded import EmbeddedEngine, EmbeddedOptions

    students = settings if isinstance(settings, EngineSection) else EngineSection()
    options = EmbeddedOptions(
        max_concurrency=settings.max_concurrency,
        max_prefill_tokens=settings.max_prefill_tokens,
        prefix_caching=settings.prefix_caching,
        prefix_cache_tokens=students.prefix_cache_tokens,
        preempt=students.preempt,
        dtype=settings.dtype,
        threads=threads,
        version=version,
    )
    return EmbeddedEngine.from_pretrained(model, options)


def open_teacher(config: Config) -> Engine:
    """The teacher of a run: an engine of its own, or servers that somebody else runs."""
    settings = config.teacher
    if settings.kind != "server":
        return open_engine(settings, resolve_model(config.models.teacher, "models.teacher"))
    from actfirst.engines.remote import RemoteEngine, RemoteOptions

    variable = settings.server.key
    if variable and not os.environ.get(variable):
        raise ConfigError(
            f"teacher.server.key names the environment variable {variable}, which is not set: "
            f"export {variable}=... before the run"
        )
    options = RemoteOptions(
        max_concurrency=settings.max_concurrency,
        deadline=settings.server.deadline,
        retries=settings.server.retries,
        key=os.environ[variable] if variable else "",
    )
    return RemoteEngine(settings.server.urls, config.models.teacher, options)


def _open_vllm(settings: EngineSection | TeacherSection, model: Path, threads: int, version: int) -> Engine:
    from actfirst.engines.vllm import VllmEngine, VllmOptions

    options = VllmOptions(
        max_concurrency=settings.max_concurrency,
        max_prefill_tokens=settings.max_prefill_tokens,
        prefix_caching=settings.prefix_caching,
        dtype=settings.dtype,
        threads=threads,
        version=version,
        enforce_eager=settings.vllm.enforce_eager,
        gpu_memory_utilization=settings.vllm.gpu_memory_utilization,
        kv_cache_gib=settings.vllm.kv_cache_gib,
        max_model_len=settings.vllm.max_model_len,
        tensor_parallel=settings.vllm.tensor_parallel,
        process=settings.vllm.process,
    )
    return VllmEngine.from_pretrained(model, options)


def quiet_libraries() -> None:
    """No progress bars of other libraries in between: what a run shows is its own business."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def open_encoder(model: Path) -> PromptEncoder:
    from transformers import AutoTokenizer

    if not (model / "tokenizer.json").is_file():
        raise ConfigError(f"{model} has no tokenizer.json: copy the model's tokenizer files there")
    return PromptEncoder(AutoTokenizer.from_pretrained(str(model)))
