"""Opens the engine that a recipe's section names. Engines are imported when they are chosen."""

from __future__ import annotations

from pathlib import Path

from actfirst.config.sections import EngineSection, TeacherSection
from actfirst.engines.base import Engine
from actfirst.models.folder import resolve_model


def open_engine(settings: EngineSection | TeacherSection, model: Path) -> Engine:
    """An engine of this process over a checkpoint folder."""
    if settings.kind == "vllm":
        from actfirst.engines.vllm import VllmEngine

        return VllmEngine(model, settings)
    from actfirst.engines.embedded import EmbeddedEngine

    return EmbeddedEngine.from_pretrained(model, settings)


def open_teacher(settings: TeacherSection, model: str) -> Engine:
    """What `models.teacher` names: an engine of this process, or servers that somebody else runs."""
    if settings.kind != "server":
        return open_engine(settings, resolve_model(model, "models.teacher"))
    from actfirst.engines.remote import RemoteEngine

    return RemoteEngine(settings.server, model, settings.max_concurrency)
