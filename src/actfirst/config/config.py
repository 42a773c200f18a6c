"""The configuration of a run: all sections together. Nothing here reads files: see `load.py`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny

from actfirst.config.base import Section
from actfirst.config.engine_sections import EngineSection, TeacherSection
from actfirst.config.method_sections import MethodsSection
from actfirst.config.runtime_sections import CheckpointSection, PoolSection, RuntimeSection, TrackingSection
from actfirst.config.sections import (
    EvaluationSection,
    LearnerSection,
    ModelsSection,
    ReferencesSection,
    RolloutSection,
    RunSection,
)
from actfirst.config.teacher_sections import PrepareSection, SftSection
from actfirst.environments.base import EnvironmentSection
from actfirst.environments.registry import read_section

AnyEnvironment = Annotated[SerializeAsAny[EnvironmentSection], BeforeValidator(read_section)]
"""The section of whichever kind its name says; kinds that are registered later count too."""


_VLLM_RANK = 512
"""The largest rank of adapters that vLLM takes."""


class Config(Section):
    """One run."""

    run: RunSection = RunSection()
    environment: AnyEnvironment
    pool: PoolSection = PoolSection()
    models: ModelsSection
    rollout: RolloutSection = RolloutSection()
    methods: MethodsSection = MethodsSection()
    references: ReferencesSection = ReferencesSection()
    learner: LearnerSection = LearnerSection()
    sft: SftSection = SftSection()
    prepare: PrepareSection = PrepareSection()
    engine: EngineSection = EngineSection()
    teacher: TeacherSection = TeacherSection()
    evaluation: EvaluationSection = EvaluationSection()
    runtime: RuntimeSection = RuntimeSection()
    checkpoint: CheckpointSection = CheckpointSection()
    tracking: TrackingSection = TrackingSection()

    @property
    def adapters_alone(self) -> bool:
        """Whether engines keep the weights of the student's folder and get trained adapters alone."""
        able = self.engine.kind == "vllm" and 0 < self.learner.adapter_rank <= _VLLM_RANK
        return able and self.learner.adapter_sync != "merged"
