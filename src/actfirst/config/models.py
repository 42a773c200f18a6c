"""The configuration of a run, as pydantic models: what a recipe may say and what is refused.

Defaults are the paper's (Tables "Training hyperparameters" and "Evaluation hyperparameters") except where a
field says otherwise. Nothing here reads files: see `load.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class Section(BaseModel):
    """Base of every section: unknown keys are errors, types are never coerced, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RunSection(Section):
    """What identifies a run and how long it lasts."""

    seed: int = Field(42, description="seed of task order, sampling and admission")
    updates: Positive = Field(250, description="optimiser updates in all")


class PocketEnvironment(Section):
    """Generated houses in ALFWorld's game format, played in-process. Size dials are ranges, ends included."""

    name: Literal["pocket"] = "pocket"
    seed: int = Field(0, description="seed of the generator; another seed gives other houses")
    receptacles: tuple[Positive, Positive] = Field((6, 9), description="size dial: receptacles per house")
    objects: tuple[Positive, Positive] = Field((6, 10), description="size dial: objects per house")
    train_tasks: Positive = Field(2000, description="tasks of the train split")
    eval_tasks: Positive = Field(200, description="tasks of each of the seen and unseen splits")
    turn_limit: Positive = 30

    @model_validator(mode="after")
    def _ranges_rise(self) -> Self:
        for key, (least, most) in (("receptacles", self.receptacles), ("objects", self.objects)):
            if least > most:
                raise ValueError(f"{key} = [{least}, {most}] is no range; write the smaller number first")
        return self


class AlfworldEnvironment(Section):
    """ALFWorld game files in the layout of the upstream download."""

    name: Literal["alfworld"] = "alfworld"
    folder: str = Field(description="folder that holds json_2.1.1/ (or train/, valid_seen/, ...)")
    turn_limit: Positive = 30


class WebshopEnvironment(Section):
    """WebShop's text environment (goal ids 0-4095 train, 4096-4195 evaluation)."""

    name: Literal["webshop"] = "webshop"
    folder: str = Field(description="folder that holds the catalogue files")
    turn_limit: Positive = 15


class ScienceworldEnvironment(Section):
    """ScienceWorld 1.2.3, `easy` preset, the paper's split."""

    name: Literal["scienceworld"] = "scienceworld"
    turn_limit: Positive = 30


EnvironmentSection = Annotated[
    PocketEnvironment | AlfworldEnvironment | WebshopEnvironment | ScienceworldEnvironment,
    Field(discriminator="name"),
]


class ModelsSection(Section):
    """Checkpoint folders in Hugging Face format; `pocket:student` and `pocket:teacher` ship with actfirst."""

    student: str = Field(description="the model that is trained")
    teacher: str = Field(description="the frozen model that scores; same tokenizer as the student")


class Generation(Section):
    """Limits and sampling of full responses and fast actions (paper, "Thinking Budget")."""

    prompt_limit: Positive = 10240
    first_stage: Positive = Field(384, description="tokens of the first request of a full response")
    response_limit: Positive = Field(
        512, description="tokens of a full response in all, inserted ones included"
    )
    continuation: Positive = Field(128, description="tokens of the second request at most")
    fast_limit: Positive = Field(512, description="tokens of a fast action at most")
    temperature: Annotated[float, Field(ge=0.0)] = 1.0
    top_p: Fraction = 1.0
    top_k: NonNegative = Field(0, description="0 disables it")

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        if self.first_stage > self.response_limit:
            raise ValueError(
                f"first_stage = {self.first_stage} exceeds response_limit = {self.response_limit}; "
                "the first request is part of the whole response, so it must not be larger"
            )
        return self


class RolloutSection(Section):
    """How experience is collected."""

    tasks_per_batch: Positive = 16
    method: str = Field("actfirst", description="a row of `actfirst methods`")
    responses: Literal["all", "admitted"] = Field(
        "admitted",
        description="deferred responses for all contexts (the paper) or only for those that will be trained on",
    )
    overlap: bool = Field(True, description="collect the next batch while the learner updates")
    generation: Generation = Generation()


class ReferencesSection(Section):
    """Offline reference trajectories, for methods that use them."""

    path: str = Field("", description="a file of `actfirst references build`; empty: made from the games")
    source: Literal["walkthrough", "expert"] = Field(
        "walkthrough", description="what games give: their walkthrough, or an expert that has to search"
    )


class LearnerSection(Section):
    """The optimiser and the loss (paper, "OPD Optimization")."""

    batch_size: Positive = Field(64, description="turn-level full responses per update")
    max_version_lag: NonNegative = 1
    learning_rate: Annotated[float, Field(gt=0.0)] = 1e-6
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    grad_clip: Annotated[float, Field(gt=0.0)] = 1.0
    clip: Annotated[float, Field(gt=0.0)] = 0.2
    dual_clip: Annotated[float, Field(gt=1.0)] = 3.0
    token_budget: Positive = Field(16384, description="tokens per micro-batch; has no effect on the result")
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    threads: NonNegative = Field(0, description="torch threads of the learner; 0 leaves torch's default")


class EngineSection(Section):
    """The student's inference engine."""

    kind: Literal["embedded"] = "embedded"
    max_concurrency: Positive = Field(256, description="cap on concurrent requests, fast and full together")
    max_prefill_tokens: Positive = Field(4096, description="prompt tokens per engine step at most")
    prefix_caching: bool = True
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    threads: NonNegative = 0


class TeacherSection(Section):
    """The teacher's engine: it scores, and generates only when it is evaluated."""

    kind: Literal["embedded"] = "embedded"
    max_concurrency: Positive = Field(256, description="cap on concurrent requests")
    max_prefill_tokens: Positive = 4096
    prefix_caching: bool = True
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    threads: NonNegative = 0


class EvaluationSection(Section):
    """Think-then-act without references (paper, Table "Evaluation hyperparameters")."""

    splits: tuple[str, ...] = ()
    tasks_per_split: NonNegative = Field(0, description="0 evaluates every task of the split")
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (42, 43, 44)
    batch_tasks: Positive = Field(64, description="tasks in play at once")
    every: NonNegative = Field(0, description="updates between evaluations during training; 0: none")
    at_start: bool = False
    at_end: bool = False
    teacher: bool = Field(False, description="also evaluate the teacher, once")
    generation: Generation = Generation(
        prompt_limit=20480, first_stage=1920, response_limit=2048, continuation=128, temperature=0.4
    )


class CheckpointSection(Section):
    """When checkpoints are written; a killed run resumes from the newest complete one."""

    every: Positive = Field(10, description="updates between checkpoints")
    keep: Positive = 2


class TrackingSection(Section):
    """Where metrics go beside the run folder."""

    sinks: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()


class Config(Section):
    """One run."""

    run: RunSection = RunSection()
    environment: EnvironmentSection
    models: ModelsSection
    rollout: RolloutSection = RolloutSection()
    references: ReferencesSection = ReferencesSection()
    learner: LearnerSection = LearnerSection()
    engine: EngineSection = EngineSection()
    teacher: TeacherSection = TeacherSection()
    evaluation: EvaluationSection = EvaluationSection()
    checkpoint: CheckpointSection = CheckpointSection()
    tracking: TrackingSection = TrackingSection()
