"""The sections of a recipe except its environment's, as pydantic models: what a recipe may say and what is refused.

Defaults are the paper's (Tables "Training hyperparameters" and "Evaluation hyperparameters") except where a
field says otherwise. The environment's section belongs to its environment; `config.py` puts all together.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from actfirst.config.base import Beta, Fraction, NonNegative, Positive, Seconds, Section, Share


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


Device: TypeAlias = Literal["auto", "cpu", "cuda"]


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


class VllmSection(Section):
    """What only vLLM knows (kind = "vllm"); see docs/engines.md."""

    enforce_eager: bool = Field(False, description="no compilation: starts much sooner, decodes slower")
    gpu_memory_utilization: Fraction = Field(0.7, description="share of each GPU's memory that vLLM takes")
    kv_cache_gib: Annotated[float, Field(ge=0.0)] = Field(
        0.0, description="GiB of keys and values; 0: what the share of memory leaves, and 1 on a CPU"
    )
    max_model_len: NonNegative = Field(0, description="tokens of a sequence at most; 0: the model's own limit")
    tensor_parallel: Positive = Field(1, description="GPUs that share one model")
    process: Literal["auto", "same", "own"] = Field(
        "auto", description="where it computes; auto: in its own process on a GPU, in this one on a CPU"
    )


def _without_version(urls: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses are often given with /v1; requests add it."""
    return tuple(url.rstrip("/").removesuffix("/v1") for url in urls)


class ServerSection(Section):
    """A teacher that somebody else runs (kind = "server"): models.teacher is the name it is served under."""

    urls: Annotated[tuple[str, ...], AfterValidator(_without_version)] = Field(
        (), description="addresses of equal OpenAI-compatible servers, with or without /v1"
    )
    deadline: Seconds = Field(120.0, description="seconds that a server has for one attempt")
    retries: NonNegative = Field(
        4, description="attempts after the first, on other servers where there are any"
    )
    key: str = Field("", description="environment variable that holds the servers' key; empty: none is sent")

    @model_validator(mode="after")
    def _addresses_hold_no_secrets(self) -> Self:
        if any("?" in url or "#" in url for url in self.urls):
            raise ValueError(
                "urls must be plain addresses, as in http://host:8000: what follows ? or # is not sent, and a key "
                "belongs into the environment variable that `key` names"
            )
        return self


Swap: TypeAlias = Literal["drain", "beside", "in_flight"]


class EngineSection(Section):
    """The student's inference engine."""

    kind: Literal["embedded", "vllm"] = Field("embedded", description="our own, or vLLM")
    max_concurrency: Positive = Field(256, description="cap on concurrent requests, fast and full together")
    max_prefill_tokens: Positive = Field(4096, description="prompt tokens per engine step at most")
    prefix_caching: bool = Field(True, description="prompts with the same beginning share its computation")
    prefix_cache_tokens: NonNegative = Field(32768, description="tokens that the prefix cache holds at most")
    priority: bool = Field(
        True,
        description="fast actions are admitted before full responses; false: in order of arrival (the paper)",
    )
    preempt: bool = Field(
        True,
        description="full responses pause for a fast action when all places are taken; only with priority, and only "
        "in the embedded engine (not in the paper)",
    )
    swap: Swap = Field(
        "drain",
        description="what new weights mean for requests under way. drain: they end on the old ones, and nothing "
        "begins until then; beside: they end on the old ones while others begin on the new ones; in_flight: they "
        "go on with the new ones, and a response has the version on which it began",
    )
    seeds: bool = Field(
        True,
        description="each request has a seed, so that runs can be repeated; false lets vLLM use its faster sampler "
        "(the embedded engine always uses seeds: they cost nothing there)",
    )
    dtype: Literal["float32", "bfloat16"] = Field("bfloat16", description="of the weights")
    device: Device = Field(
        "auto", description="auto: a GPU where there is one (Ray: where engine_gpus are set)"
    )
    threads: NonNegative = Field(0, description="torch threads of the engine; 0 leaves torch's default")
    weight_check_every: NonNegative = Field(
        1,
        description="after each so-many-th update, every engine's log-probs of a few tokens are compared with the "
        "learner's, so that weights that never arrived end the run; 0: never",
    )
    vllm: VllmSection = VllmSection()

    @model_validator(mode="after")
    def _vllm_has_one_set_of_weights(self) -> Self:
        if self.kind == "vllm" and self.swap == "beside":
            raise ValueError(
                'swap = "beside" needs two sets of weights at once, and vLLM holds one; choose "drain" or "in_flight", '
                'or kind = "embedded"'
            )
        return self


class TeacherSection(Section):
    """The teacher's engine: it scores, and generates only when it is evaluated."""

    kind: Literal["embedded", "vllm", "server"] = Field(
        "embedded", description="two that a run opens itself, and servers that it only asks"
    )
    max_concurrency: Positive = Field(256, description="cap on concurrent requests")
    max_prefill_tokens: Positive = Field(4096, description="prompt tokens per engine step at most")
    prefix_caching: bool = Field(True, description="prompts with the same beginning share its computation")
    dtype: Literal["float32", "bfloat16"] = Field("bfloat16", description="of the weights")
    device: Device = Field(
        "auto", description="auto: a GPU where there is one (Ray: where teacher_gpus are set)"
    )
    threads: NonNegative = Field(0, description="torch threads of the engine; 0 leaves torch's default")
    vllm: VllmSection = VllmSection()
    server: ServerSection = ServerSection()

    @model_validator(mode="after")
    def _servers_have_addresses(self) -> Self:
        if self.kind == "server" and not self.server.urls:
            raise ValueError('kind = "server" needs addresses: set server.urls')
        if self.kind != "server" and self.server.urls:
            raise ValueError(
                f'server.urls are given, but kind = "{self.kind}" asks no server; set kind = "server"'
            )
        return self


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
    environment_workers: NonNegative = Field(0, description="actors that play environments; 0: the driver does")
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
    restarts: NonNegative = Field(3, description="lost learners in a row, without an update between, at most")
    object_store_mb: NonNegative = Field(0, description="of a cluster started here; 0 leaves it to Ray")

    @model_validator(mode="after")
    def _one_process_is_one_of_each(self) -> Self:
        several = ("rollout_engines", "teacher_replicas", "learners", "environment_workers")
        asked = [name for name in several if getattr(self, name) > (name != "environment_workers")]
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
