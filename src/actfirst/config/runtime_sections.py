"""Sections of a recipe about where and how things run: environments, processes, checkpoints, trackers."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from actfirst.config.base import NonNegative, Positive, Seconds, Section, Share


class PoolSection(Section):
    """Where environments are played: in this process, or in worker processes with deadlines and restarts."""

    kind: Literal["auto", "inline", "processes"] = Field(
        "auto", description="auto: in this process where a step takes well under a millisecond, else processes"
    )
    workers: Positive = Field(16, description="processes at most; they start when they are needed")
    environments_per_worker: NonNegative = Field(0, description="0: what suits the environment")
    start_seconds: Seconds = Field(300.0, description="deadline of a worker's start")
    reset_seconds: Seconds = Field(120.0, description="deadline of opening an environment and beginning a task")
    step_seconds: Seconds = Field(60.0, description="deadline of one step")
    retries: NonNegative = Field(
        2, description="how often a task whose environment failed begins again on a fresh one"
    )
    python: str = Field("", description="interpreter of the workers; empty: this one")

    @model_validator(mode="after")
    def _interpreter_of_workers(self) -> Self:
        if self.python and self.kind == "inline":
            raise ValueError(
                f'python = {self.python} is the interpreter of worker processes, but kind = "inline" has none; '
                'choose kind = "processes"'
            )
        return self


class RuntimeSection(Section):
    """Where the parts of a run live: all in this process, or as actors of a Ray cluster."""

    kind: Literal["local", "ray"] = Field("local", description="this process, or a Ray cluster")
    address: str = Field("", description='a running cluster ("auto", or host:port); empty starts one here')
    rollout_engines: Positive = Field(1, description="student engines; each has its own copy of the weights")
    teacher_replicas: Positive = Field(1, description="teacher engines")
    learners: Positive = Field(1, description="processes that share the learner's weights and work (FSDP2)")
    learner_copies: Positive = Field(
        1,
        description="copies of the learner's weights and optimiser, each divided over learners / learner_copies "
        "ranks (HSDP): more memory, and gathering stays within a copy",
    )
    least_learners: NonNegative = Field(
        0,
        description="after a loss a run goes on with as few learner ranks, if there is no place for more within two "
        "minutes; 0: it waits for places for all",
    )
    environment_workers: NonNegative = Field(0, description="actors that play environments; 0: the driver does")
    rollout_drivers: NonNegative = Field(
        0,
        description="actors that play the rollouts of a batch between them (prompts, tokens, environments); 0: the "
        "run's own process does. Each has a pool of its own",
    )
    engine_gpus: Share = Field(0.0, description="GPUs of each rollout engine; 0 computes on CPUs")
    teacher_gpus: Share = Field(0.0, description="GPUs of each teacher replica")
    learner_gpus: Share = Field(0.0, description="GPUs of each learner rank")
    cpus: Share = Field(1.0, description="CPUs that Ray reserves for each actor")
    weight_sync: Literal["auto", "store", "collective"] = Field(
        "auto",
        description="how weights reach engines: Ray's object store, or a broadcast between processes; auto: a "
        "broadcast where learner and engines have GPUs",
    )
    request_seconds: Seconds = Field(
        1800.0, description="a request that takes longer, queueing included, counts as lost with its engine"
    )
    call_seconds: Seconds = Field(
        3600.0,
        description="the start of a part, an update, a part of a checkpoint, a step of an environment worker: what "
        "takes longer counts as lost, with its process",
    )
    restarts: NonNegative = Field(3, description="lost learners in a row, without an update between, at most")
    object_store_mb: NonNegative = Field(0, description="of a cluster started here; 0 leaves it to Ray")

    @model_validator(mode="after")
    def _one_process_is_one_of_each(self) -> Self:
        least = {
            "rollout_engines": 1,
            "teacher_replicas": 1,
            "learners": 1,
            "environment_workers": 0,
            "rollout_drivers": 0,
        }
        asked = [name for name, here in least.items() if getattr(self, name) > here]
        if self.kind == "local" and asked:
            raise ValueError(
                f'{asked[0]} = {getattr(self, asked[0])} needs several processes; set kind = "ray" '
                "(pip install 'actfirst[ray]'), or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _copies_are_alike(self) -> Self:
        if self.learners % self.learner_copies:
            raise ValueError(
                f"learners = {self.learners} cannot be divided into learner_copies = {self.learner_copies} copies "
                "of equal size; learner_copies must divide learners"
            )
        return self

    @model_validator(mode="after")
    def _the_least_is_not_more(self) -> Self:
        if self.least_learners > self.learners:
            raise ValueError(
                f"least_learners = {self.least_learners} is more than learners = {self.learners}; it is with how many "
                "ranks a run may go on when some of them are lost"
            )
        return self

    @model_validator(mode="after")
    def _one_plays_environments(self) -> Self:
        if self.rollout_drivers and self.environment_workers:
            raise ValueError(
                f"environment_workers = {self.environment_workers} serve the run's own process, and with "
                f"rollout_drivers = {self.rollout_drivers} those play environments themselves; leave one of them out"
            )
        return self

    @property
    def learner_shards(self) -> int:
        """Ranks that hold one copy of the learner's weights together."""
        return self.learners // self.learner_copies


class CheckpointSection(Section):
    """When checkpoints are written; a killed run resumes from the newest complete one."""

    every: Positive = Field(10, description="updates between checkpoints")
    keep: Positive = Field(2, description="newest checkpoints that are kept")
    keep_at: tuple[Positive, ...] = Field(
        (), description="updates after which a checkpoint is written and kept for good"
    )
    export: bool = Field(
        False,
        description="checkpoints of keep_at also hold the model in bfloat16, as a Hugging Face folder (bfloat16/)",
    )
    keep_best: bool = Field(True, description="where a run evaluates itself, also keep the best checkpoint")
    background: bool = Field(
        True, description="write while training goes on, from a copy of weights and optimiser in main memory"
    )

    @model_validator(mode="after")
    def _exports_have_a_place(self) -> Self:
        if self.export and not self.keep_at:
            raise ValueError(
                "export = true writes nothing unless keep_at says after which updates; set it, or leave out export"
            )
        return self


class TrackingSection(Section):
    """Where metrics go beside the run folder."""

    sinks: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = Field(
        (), description="metric services beside the run folder; each is an extra of the same name"
    )
    project: str = Field("actfirst", description="project of the run in W&B and trackio")
    name: str = Field("", description="name of the run there; empty: that of its folder")
    rollouts: NonNegative = Field(
        4, description="sample rollouts shown there as a table, of every tenth batch; 0: none"
    )
