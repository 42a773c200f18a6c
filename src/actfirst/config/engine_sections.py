"""Sections of a recipe about engines: the student's, and the teacher's."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from actfirst.config.base import Device, Fraction, NonNegative, Positive, Seconds, Section


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
