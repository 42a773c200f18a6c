"""Opens the engine that a recipe's section names. Engines are imported when they are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from actfirst.config.engine_sections import EngineSection, TeacherSection
from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.errors import TeacherError
from actfirst.models.folder import resolve_model
from actfirst.records import EngineStats

if TYPE_CHECKING:
    import torch


def open_engine(settings: EngineSection | TeacherSection, model: Path, adapter_rank: int = 0) -> Engine:
    """An engine of this process over a checkpoint folder. vLLM with an `adapter_rank` takes adapters alone later."""
    if settings.kind == "vllm":
        from actfirst.engines.vllm import ReceivingVllmEngine, VllmEngine

        # Adapters are small: they come through this process.
        return (
            VllmEngine(model, settings, adapter_rank) if adapter_rank else ReceivingVllmEngine(model, settings)
        )
    from actfirst.engines.embedded import EmbeddedEngine

    return EmbeddedEngine.from_pretrained(model, settings)


def open_teacher(settings: TeacherSection, model: str) -> Engine:
    """What `models.teacher` names: an engine of this process, or servers that somebody else runs."""
    if settings.kind != "server":
        return open_engine(settings, resolve_model(model, "models.teacher"))
    from actfirst.engines.remote import RemoteEngine

    return RemoteEngine(settings.server, model, settings.max_concurrency)


class NoTeacher(Engine):
    """In place of the teacher in a run that asks none: no model is loaded, and nothing was ever computed."""

    version = 0

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> NoReturn:
        raise TeacherError("this run has no teacher to generate")

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> NoReturn:
        raise TeacherError("this run has no teacher to score")

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> NoReturn:
        raise TeacherError("a teacher is frozen, and this run has none")

    def stats(self) -> EngineStats:
        return EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)

    async def close(self) -> None: ...
