"""How teachers are made: the tables `sft` and `prepare` of a recipe."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from actfirst.config.base import NonNegative, Positive, Section, Share


class SftDataSection(Section):
    """One source of demonstrations; see docs/teachers.md."""

    kind: Literal["run", "rollouts", "references", "demonstrator", "actions", "chat", "pairs"] = Field(
        description="a run folder, a file of teacher rollouts, a reference store, the world's own demonstrator, a "
        "file of action lists, of chats, of prompts with responses"
    )
    path: str = Field("", description="the folder or file; the demonstrator needs none")
    split: str = Field("train", description="the split whose tasks count")
    tasks: NonNegative = Field(0, description="that many tasks of the split at most; 0: all")
    success: bool = Field(True, description="only trajectories that succeed when they are replayed")
    least_score: Annotated[float, Field(ge=0.0, le=100.0)] = Field(
        0.0, description="only trajectories that reach this score when they are replayed"
    )
    walks: Positive = Field(1, description="the demonstrator goes through each task so many times")
    stray: Share = Field(
        0.0, description="share of turns in which the walks after the first do something else than is shown"
    )
    unlearned: tuple[str, ...] = Field(
        (), description="stages of a task at which a novice shows what to do, and not the demonstrator"
    )
    learned: Share = Field(0.0, description="share of the turns at those stages that are shown well")
    learned_dynamics: Share = Field(
        0.0, description="share of the turns at those stages that may be shown as inverse dynamics"
    )
    haste: Share = Field(
        0.0,
        description="share of turns, at any stage, whose next action without reasons is what somebody does in haste",
    )
    misread: Share = Field(
        0.0,
        description="share of turns whose action by inverse dynamics is another than led to what is seen next",
    )

    @model_validator(mode="after")
    def _files_have_paths(self) -> Self:
        if bool(self.path) is (self.kind == "demonstrator"):
            raise ValueError(
                f'kind = "{self.kind}" ' + ("needs no path" if self.path else "needs a path to read from")
            )
        return self


class SftSection(Section):
    """Supervised fine-tuning (`actfirst sft`). The paper states steps and data alone: all other constants are ours.

    What is not said here is the learner's: betas, weight decay, clipping, precision, token budget.
    """

    data: tuple[SftDataSection, ...] = Field((), description="where demonstrations come from")
    steps: Positive = Field(250, description="optimiser steps in all")
    batch_size: Positive = Field(64, description="examples per step")
    together: bool = Field(
        False,
        description="turns of a trajectory come one after another, so that what their prompts share is computed once; "
        "a batch then has fewer trajectories, so make it larger",
    )
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(1e-5, description="the highest, after warmup")
    warmup: NonNegative = Field(10, description="steps in which the learning rate rises")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="of the learning rate after warmup")
    final_rate: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.1, description="what is left of the learning rate at the end of a cosine"
    )
    full: Share = Field(1.0, description="share of turns shown as full responses, where there is one")
    next_action: Share = Field(0.0, description="share of turns shown as actions alone")
    inverse_dynamics: Share = Field(0.0, description="share of turns shown as inverse dynamics")
    prompts: tuple[Literal["paper", "growing"], ...] = Field(
        (), description="orders of prompts, one of them for each trajectory; empty: environment.prompts"
    )
    prompt_weight: Share = Field(0.0, description="how much a token of the prompt counts")
    longest: NonNegative = Field(0, description="tokens of prompt and response at most; 0: no limit")
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        0.05, description="share of trajectories that is not trained on, and whose loss is measured"
    )
    held_out_every: NonNegative = Field(50, description="steps between two measurements; 0: only at the end")

    @model_validator(mode="after")
    def _some_mode(self) -> Self:
        if not self.full + self.next_action + self.inverse_dynamics:
            raise ValueError("full, next_action and inverse_dynamics are all 0: nothing would be shown")
        return self


StageName = Literal["sft", "gigpo", "evaluate", "candidates", "references"]


class PrepareSection(Section):
    """How a teacher and references are made (`actfirst prepare`): stages, and what each changes in the recipe."""

    stages: tuple[StageName, ...] = Field((), description="in the order in which they run")
    start: str = Field(
        "", description="the model to begin with: a folder, or new:MODEL for its shape with random weights"
    )
    sft: tuple[str, ...] = Field((), description="settings of this stage, as on the command line")
    gigpo_recipe: str = Field("", description="the recipe of this stage; empty: this one")
    gigpo: tuple[str, ...] = Field((), description="settings of this stage")
    evaluate: tuple[str, ...] = Field((), description="settings of this stage")
    candidates: tuple[str, ...] = Field((), description="settings of this stage")
    rollouts: Positive = Field(10, description="candidates per training task")
    tasks: NonNegative = Field(0, description="training tasks that get candidates and references; 0: all")
