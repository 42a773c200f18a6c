"""Sections of a recipe, as pydantic models: what it may say and what is refused.

Engines, runtime, methods, teachers and environments have files of their own; `config.py` joins them. Defaults are
the paper's (Tables "Training hyperparameters" and "Evaluation hyperparameters") except where a field says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from actfirst.config.base import Beta, Device, Fraction, NonNegative, Positive, Section, Share


class RunSection(Section):
    """What identifies a run and how long it lasts."""

    seed: int = Field(42, description="seed of task order, sampling and admission")
    updates: Positive = Field(250, description="optimiser updates in all")
    deadline: Share = Field(
        0.0,
        description="seconds after its launch by which a process has stored a checkpoint and stopped; 0: none",
    )
    keep_responses: NonNegative = Field(
        32, description="trained responses of each update that are stored token by token; a fixed draw of them"
    )
    keep_alternatives: NonNegative = Field(
        0,
        description="of the teacher's most likely tokens stored with each token of a response; an embedded teacher of"
        " this process tells them, others do not",
    )
    keep_evaluations: NonNegative = Field(
        100, description="episodes of each evaluation that are stored; a fixed draw of them"
    )
    keep_megabytes: NonNegative = Field(
        256, description="of stored responses at most, and as many of stored evaluation episodes"
    )


class ModelsSection(Section):
    """Checkpoint folders in Hugging Face format; `pocket:student` and `alfworld-mini:student` ship with actfirst."""

    student: str = Field(description="the model that is trained")
    teacher: str = Field(
        "", description="the frozen model that scores; same tokenizer as the student; empty: none is needed"
    )


class Generation(Section):
    """Limits and sampling of full responses and fast actions (paper, "Thinking Budget")."""

    prompt_limit: Positive = Field(
        10240,
        description="tokens of a prompt at most; the oldest turns are left out of the history until it fits",
    )
    first_stage: Positive = Field(384, description="tokens of the first request of a full response")
    response_limit: Positive = Field(
        512, description="tokens of a full response in all, inserted ones included"
    )
    continuation: Positive = Field(128, description="tokens of the second request at most")
    fast_limit: Positive = Field(512, description="tokens of a fast action at most")
    fast_reasoning: Literal["closed", "prefill", "none"] = Field(
        "closed",
        description="how a fast action is kept from reasoning; closed: its prompt ends as the model's chat template "
        "ends without thinking; prefill: and with <action>; none: as full responses do",
    )
    temperature: Annotated[float, Field(ge=0.0)] = Field(
        1.0, description="of sampling; 0 takes the most likely token"
    )
    top_p: Fraction = Field(1.0, description="share of probability that is sampled from; 1 disables it")
    top_k: NonNegative = Field(0, description="0 disables it")
    drafts: bool = Field(
        True, description="verify fast actions from drafts: fewer steps, same distribution (not in the paper)"
    )

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        if self.first_stage > self.response_limit:
            raise ValueError(
                f"first_stage = {self.first_stage} exceeds response_limit = {self.response_limit}; "
                "the first request is part of the whole response, so it must not be larger"
            )
        return self


SampleOrder: TypeAlias = Literal["position", "completion"]


class RolloutSection(Section):
    """How experience is collected."""

    tasks_per_batch: Positive = Field(16, description="tasks that are played together")
    method: str = Field("actfirst", description="a row of `actfirst methods`")
    group_size: Positive = Field(
        1, description="rollouts of each task in a batch, for methods that compare their rewards"
    )
    responses: Literal["all", "admitted"] = Field(
        "admitted",
        description="deferred responses for all contexts (the paper) or only for those that will be trained on",
    )
    sample_order: SampleOrder = Field(
        "position",
        description="how the samples of a batch are ordered. position: by admission, episode and turn, whatever "
        "happened first; completion: as their responses were completed and scored (the paper)",
    )
    overlap: bool = Field(True, description="collect the next batch while the learner updates")
    pacing: bool = Field(
        False,
        description="act by full responses, without guidance, once the engine's cap is found too small for acting "
        "first to save time (not in the paper)",
    )
    generation: Generation = Generation()


class ReferencesSection(Section):
    """Offline reference trajectories, for methods that use them."""

    path: str = Field("", description="a file of `actfirst references build`; empty: made when asked for")
    source: str = Field(
        "best",
        description="how the world's tasks are solved: best takes the best of all ways that the world has; "
        "expert is the one that has to search, as a policy must; rollouts takes the shortest solutions that training "
        "itself finds (and those in path, from the beginning)",
    )
    otherwise: Literal["method", "next_action", "think"] = Field(
        "method",
        description="how a task without a reference is played: as the method goes on where a reference ends, by "
        "next-action prediction, or by think-then-act",
    )


class LearnerSection(Section):
    """The optimiser and the loss (paper, "OPD Optimization")."""

    batch_size: Positive = Field(64, description="turn-level full responses per update")
    whole_batches: bool = Field(
        False,
        description="an update takes all samples of the rollout batch, in seeded order, in optimiser steps of "
        "batch_size each; the last takes the rest",
    )
    aggregation: Literal["seq-mean-token-mean", "token-mean"] = Field(
        "seq-mean-token-mean", description="means within responses and then over them, or one over all tokens"
    )
    kl_weight: Share = Field(
        0.0, description="of the KL to models.teacher at sampled tokens (low-variance estimator)"
    )
    entropy_weight: Share = Field(0.0, description="of the policy's entropy, as a bonus")
    max_version_lag: NonNegative = Field(
        1, description="how many versions older than the weights a sample may be; older ones are discarded"
    )
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(1e-6, description="of AdamW")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="how the rate goes from learning_rate to 0 (the paper: constant)"
    )
    warmup_updates: NonNegative = Field(0, description="updates in which the rate rises to learning_rate")
    schedule_updates: NonNegative = Field(0, description="updates until the rate is 0; 0: run.updates")
    average: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        0.0,
        description="decay of averaged weights, which evaluations take and checkpoints hold beside the others; in the "
        "first updates it is less; 0: none (the paper)",
    )
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="of AdamW")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.01, description="of AdamW")
    grad_clip: Annotated[float, Field(gt=0.0)] = Field(1.0, description="norm to which gradients are clipped")
    clip: Annotated[float, Field(gt=0.0)] = Field(
        0.2, description="the probability ratio counts from 1 - clip to 1 + clip"
    )
    dual_clip: Annotated[float, Field(gt=1.0)] = Field(
        3.0, description="bound of the ratio where the advantage is negative"
    )
    token_budget: Positive = Field(16384, description="tokens per micro-batch; has no effect on the result")
    precision: Literal["float32", "bfloat16"] = Field(
        "bfloat16", description="of the forward and backward pass"
    )
    device: Device = Field(
        "auto", description="auto: a GPU where there is one (Ray: where learner_gpus are set)"
    )
    kernels: Literal["auto", "plain", "fused"] = Field(
        "auto", description="token-wise work in one kernel for each piece; auto: fused on a GPU, plain on a CPU"
    )
    threads: NonNegative = Field(0, description="torch threads of the learner; 0 leaves torch's default")
    activation_checkpointing: bool = Field(
        False, description="compute activations again instead of keeping them; has no effect on the result"
    )
    adapter_rank: NonNegative = Field(
        0, description="train adapters of this rank instead of all weights; 0: all"
    )
    adapter_alpha: Annotated[float, Field(gt=0.0)] = Field(
        32.0, description="adapters are scaled by alpha / rank"
    )
    adapter_sync: Literal["auto", "alone", "merged"] = Field(
        "auto",
        description="what engines get of trained adapters: them alone (vLLM only), or weights with adapters merged in; "
        "auto: alone where the engine is vLLM",
    )


class EvaluationSection(Section):
    """Think-then-act without references (paper, Table "Evaluation hyperparameters")."""

    splits: tuple[str, ...] = Field(
        (), description="splits that are evaluated; a run that evaluates itself must name them"
    )
    tasks_per_split: NonNegative = Field(0, description="0 evaluates every task of the split")
    start_tasks: NonNegative = Field(
        0, description="tasks per split of the evaluation before the first update; 0: as many as of all others"
    )
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = Field(
        (42, 43, 44), description="each task is played once with each seed"
    )
    batch_tasks: Positive = Field(64, description="tasks in play at once")
    runners: NonNegative = Field(
        0, description="tasks in play per engine at most; 0: only batch_tasks limits them"
    )
    engines: NonNegative = Field(
        0,
        description="engines of a command that plays a model (eval, bench quality, references build --teacher); 0: "
        "runtime.rollout_engines. Evaluation inside training uses the engines of training",
    )
    memory: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.0, description="share of each GPU's memory that vLLM takes in such a command; 0: the engine's own"
    )
    every: NonNegative = Field(0, description="updates between evaluations during training; 0: none")
    at_start: bool = Field(False, description="evaluate the student before the first update")
    at_end: bool = Field(False, description="evaluate the student after the last update")
    teacher: bool = Field(False, description="also evaluate the teacher, once")
    generation: Generation = Generation(
        prompt_limit=20480, first_stage=1920, response_limit=2048, continuation=128, temperature=0.4
    )
