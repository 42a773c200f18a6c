"""An estimate of the memory that each part of a run takes, from shapes and settings alone.

The formula stands in docs/scaling.md. The bytes of activations were counted on the real forward pass (what autograd
saves, tests/training/test_footprint.py); allocators and kernels take a little more than is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.config.config import Config
from actfirst.config.engine_sections import EngineSection, TeacherSection
from actfirst.methods.table import needs_teacher
from actfirst.models.shapes import LOGITS_AT_ONCE, ModelShape, head_tokens, shape_of

GPU_BYTES = 80e9
"""Memory of a GPU where nothing else is known: that of the paper's A100."""

_BYTES = {"float32": 4, "bfloat16": 2}
# Of each logit: as computed, in float32, its gradient, and the gradient as computed.
_LOGIT_BYTES = {"float32": 12, "bfloat16": 12}


@dataclass(frozen=True, slots=True)
class SavedBytes:
    """Bytes that autograd saves per token and layer, for each unit of a width."""

    hidden: float
    intermediate: float
    queries: float
    keys: float

    def of(self, shape: ModelShape) -> float:
        return (
            self.hidden * shape.hidden_size
            + self.intermediate * shape.intermediate_size
            + self.queries * shape.queries
            + self.keys * shape.keys
        )


SAVED = {"bfloat16": SavedBytes(18, 8, 10.25, 8.125), "float32": SavedBytes(16, 16, 16.25, 12.125)}
RESIDUAL = 4  # bytes per unit of the hidden width that a recomputed layer keeps per token


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes by purpose of one process of a part. `note` says what is behind the numbers."""

    part: str
    model: str
    bytes_of: dict[str, float]
    note: str = ""

    @property
    def total(self) -> float:
        return sum(self.bytes_of.values())


def footprints(config: Config, gpu_bytes: float = GPU_BYTES) -> list[Footprint]:
    """Of each part whose model is known, where each GPU has so much memory."""
    student, teacher = shape_of(config.models.student), shape_of(config.models.teacher)
    found = []
    if student is not None:
        found.append(_engine("rollout engine", *student, config.engine, config, gpu_bytes, taking=True))
    if teacher is not None and config.teacher.kind != "server" and needs_teacher(config):
        found.append(_engine("teacher replica", *teacher, config.teacher, config, gpu_bytes, taking=False))
    if student is not None:
        found.append(_learner(*student, config))
    return found


def _learner(name: str, shape: ModelShape, config: Config) -> Footprint:
    settings, ranks, shards = config.learner, config.runtime.learners, config.runtime.learner_shards
    trained = _trained(shape, settings.adapter_rank)
    saved, tokens = SAVED[settings.precision].of(shape), settings.token_budget
    gpu = settings.device != "cpu" and config.runtime.learner_gpus > 0
    logits = head_tokens(shape.vocab_size, gpu=gpu) * shape.vocab_size if gpu else LOGITS_AT_ONCE
    kept = RESIDUAL * shape.hidden_size * shape.layers + saved if settings.activation_checkpointing else None
    return Footprint(
        "learner rank",
        name,
        {
            "weights": 4 * shape.parameters / shards,
            "gradients": 4 * trained / shards,
            "optimizer": (12 if settings.average else 8) * trained / shards,
            "gathered": _gathered(shape, settings.precision, ranks, trains_all=trained == shape.parameters),
            "activations": tokens * (kept if kept is not None else saved * shape.layers),
            "logits": logits * _LOGIT_BYTES[settings.precision],
        },
        f"{tokens:,} tokens" + (", recomputed" if settings.activation_checkpointing else ""),
    )


def _trained(shape: ModelShape, rank: int) -> int:
    """Parameters with gradients: all, or two thin matrices beside each projection."""
    if not rank:
        return shape.parameters
    ends = 2 * (shape.hidden_size + shape.queries) + 2 * (shape.hidden_size + shape.keys)
    return shape.layers * rank * (ends + 3 * (shape.hidden_size + shape.intermediate_size))


def _gathered(shape: ModelShape, precision: str, ranks: int, *, trains_all: bool) -> float:
    """Copies beside the float32 shards: what is whole at a time, or the bfloat16 copies of autocast."""
    size = _BYTES[precision]
    if ranks == 1:
        return size * shape.parameters if precision == "bfloat16" else 0.0
    outer = 4 * shape.outer_parameters * (2 if trains_all else 1)
    two_layers = 2 * size * shape.layer_parameters
    gradient = (size + 4) * shape.layer_parameters if trains_all else 0
    return outer + two_layers + gradient


def _engine(
    part: str,
    name: str,
    shape: ModelShape,
    settings: EngineSection | TeacherSection,
    config: Config,
    gpu_bytes: float,
    *,
    taking: bool,
) -> Footprint:
    """`taking`: new weights arrive while the old ones are in use."""
    size, limits = _BYTES[settings.dtype], config.rollout.generation
    weights = size * shape.parameters
    longest = limits.prompt_limit + limits.response_limit
    each = size * shape.kv_values_per_token * longest
    if settings.kind == "vllm":
        share = settings.vllm.gpu_memory_utilization * gpu_bytes * settings.vllm.tensor_parallel
        cache = max(0.0, share - weights)
    else:
        cache = each * settings.max_concurrency
    parts = {"weights": weights, **({"new weights": weights} if taking else {}), "KV cache": cache}
    return Footprint(part, name, parts, f"{cache / each:.0f} sequences of {longest:,} tokens")
