"""`actfirst bench budget`: bytes and FLOPs of the learner's forward and backward pass, counted and not measured.

The real learner runs on tensors that have a shape and no contents. Every operation that torch carries out is counted:
FLOPs of matrix products and attention, and for all other operations the bytes that they read and write. Layers are
equal, so models of two and of three layers tell what any number of them costs. What that means on a GPU is a sum, not a
measurement: FLOPs at the stated share of the peak and, one after the other, bytes at the stated share of the bandwidth.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from actfirst.config.sections import LearnerSection
from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import Layout, Queries, lay_out
from actfirst.learning.update import Learner
from actfirst.models.shapes import ModelShape, head_tokens
from actfirst.records import TurnSample

# Operations that move nothing, beside views: they only reserve memory or give it another shape.
_FREE = {
    "device",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "_unsafe_view",
    "detach",
    "lift_fresh",
}
# Operations that read as much of their first argument as they write.
_PICKING = {"index_select", "embedding", "gather", "index"}
_ATTENTION = {
    "_scaled_dot_product_flash_attention_for_cpu": 1.0,
    "_scaled_dot_product_flash_attention_for_cpu_backward": 2.5,  # the scores are computed again
}


@dataclass(frozen=True, slots=True)
class Gpu:
    """What is assumed of a GPU: its data sheet, and the shares of it that large kernels reach."""

    name: str = "A100 80GB"
    flops: float = 312e12
    bandwidth: float = 2.039e12
    matmul_share: float = 0.75
    bandwidth_share: float = 0.85


A100 = Gpu()


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a micro-batch: FLOPs of matrix products and attention, and bytes that all else reads and writes."""

    flops: float = 0.0
    moved: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.moved + other.moved)

    def times(self, factor: float) -> Cost:
        return Cost(factor * self.flops, factor * self.moved)


@dataclass(frozen=True, slots=True)
class Budget:
    """Of a model, for each token of its micro-batch. `useful`: FLOPs without those of recomputing."""

    kernels: str
    recomputed: bool
    flops: float
    useful: float
    moved: float

    def seconds(self, gpu: Gpu = A100) -> float:
        """Of one token, if nothing else took time."""
        return self.flops / (gpu.flops * gpu.matmul_share) + self.moved / (gpu.bandwidth * gpu.bandwidth_share)

    def mfu(self, gpu: Gpu = A100) -> float:
        """The share of the GPU's peak that useful FLOPs then are."""
        return self.useful / self.seconds(gpu) / gpu.flops


@dataclass(frozen=True, slots=True)
class Work:
    """A micro-batch: so many sequences of random tokens. The first token of each is supervised, too, so that the last
    layer's attention is of one form with the others': tensors without contents know no other."""

    sequences: int = 8
    prompt: int = 1024
    response: int = 1024

    @property
    def tokens(self) -> int:
        return self.sequences * (self.prompt + self.response - 1)  # the last token is only predicted


def budget(shape: ModelShape, kernels: str, *, recomputed: bool, work: Work = Work()) -> Budget:  # noqa: B008
    cost, useful = (_whole_model(shape, kernels, again, work) for again in (recomputed, False))
    tokens = work.tokens
    return Budget(kernels, recomputed, cost.flops / tokens, useful.flops / tokens, cost.moved / tokens)


def rows(found: Mapping[str, Sequence[Budget]], gpu: Gpu = A100) -> list[dict[str, str]]:
    return [
        {
            "model": name,
            "kernels": one.kernels,
            "activations": "recomputed" if one.recomputed else "kept",
            "GFLOP/token": f"{one.flops / 1e9:.2f}",
            "of these useful": f"{one.useful / 1e9:.2f}",
            "MB/token": f"{one.moved / 1e6:.1f}",
            "MFU by count (%)": f"{100 * one.mfu(gpu):.0f}",
        }
        for name, budgets in found.items()
        for one in budgets
    ]


def to_json(found: Mapping[str, Sequence[Budget]], gpu: Gpu = A100) -> dict[str, object]:
    return {
        "gpu": asdict(gpu),
        "work": asdict(Work()),
        "budgets": {
            name: [{**asdict(one), "mfu": one.mfu(gpu)} for one in ones] for name, ones in found.items()
        },
    }


def _whole_model(shape: ModelShape, kernels: str, recomputed: bool, work: Work) -> Cost:
    two, three = (count(replace(shape, layers=layers), kernels, recomputed, work).cost for layers in (2, 3))
    layer = three + two.times(-1)
    return two + layer.times(shape.layers - 2)


def count(shape: ModelShape, kernels: str, recomputed: bool, work: Work) -> Counted:
    """One forward and backward pass of the learner over the micro-batch."""
    settings = LearnerSection(
        precision="bfloat16",
        activation_checkpointing=recomputed,
        kernels=kernels,  # type: ignore[arg-type]
        device="cpu",
    )
    counted = Counted()
    unreal_pass(shape, settings, work, counted)
    return counted


def unreal_pass(
    shape: ModelShape,
    settings: LearnerSection,
    work: Work,
    watching: TorchDispatchMode,
    learner: Callable[[Path, LearnerSection], Learner] | None = None,
) -> None:
    """A forward and backward pass over the micro-batch, on tensors without contents, while somebody watches."""
    layout = lay_out(make_samples(work, shape.vocab_size), work.sequences, LossConfig())
    with TemporaryDirectory() as folder, FakeTensorMode() as mode:
        (Path(folder) / "config.json").write_text(json.dumps(qwen3_config(shape)), encoding="utf-8")
        empty = (learner or EmptyLearner)(Path(folder), settings)
        unreal = _unreal(layout, mode)
        with watching:
            empty._backward(unreal)


class EmptyLearner(Learner):
    """The learner as it would be on a GPU, with a model that was never loaded."""

    def _open(self, folder: Path) -> Any:
        from transformers import AutoConfig, AutoModelForCausalLM

        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).eval()

    def _place(self) -> None:
        self.head_tokens = head_tokens(self._vocabulary, gpu=True)


class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what is carried out while it is active, by the name of the operation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()

    @property
    def cost(self) -> Cost:
        return Cost(float(self.flops.total()), float(self.moved.total()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.split("::")[1]
        if name in _ATTENTION:
            self.flops[name] += round(_ATTENTION[name] * _attention_flops(args, backward="backward" in name))
        elif (packet := func._overloadpacket) in flop_registry:
            self.flops[name] += flop_registry[packet](*args, **kwargs, out_val=result)
        elif name not in _FREE and not _is_view(func):
            self.moved[name] += _moved(name, (*args, *kwargs.values()), result)
        return result


def _attention_flops(args: Sequence[Any], *, backward: bool) -> float:
    """Of causal attention whose last query sees the last key: two products, of what is seen."""
    query, key = args[1:3] if backward else args[:2]
    sequences, heads, asked, size = query.shape
    seen = asked * key.shape[2] - asked * asked / 2
    return float(4 * sequences * heads * size * seen)


def _is_view(func: Any) -> bool:
    aliases = [returned.alias_info for returned in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _moved(name: str, inputs: Sequence[Any], result: Any) -> int:
    written = sum(map(_bytes, _tensors(result)))
    given = _tensors(inputs)
    if name in _PICKING:
        return 2 * written + sum(map(_bytes, given[1:]))
    return written + sum(map(_bytes, given))


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def _bytes(tensor: Tensor) -> int:
    """Of the entries that there are: one that is repeated by its strides is read once."""
    entries = 1
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        entries *= length if stride else 1
    return entries * tensor.element_size()


def qwen3_config(shape: ModelShape) -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.norm_eps,
        "rope_parameters": {"rope_theta": shape.rope_theta, "rope_type": "default"},
        "max_position_embeddings": shape.max_positions,
        "tie_word_embeddings": shape.tied_embeddings,
        "attention_bias": False,
        "dtype": "float32",
    }


def make_samples(work: Work, vocabulary: int) -> list[TurnSample]:
    draw, longest = random.Random(0), work.prompt + work.response - 1

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(vocabulary) for _ in range(count))

    return [
        TurnSample(
            id=f"sample-{number}",
            episode_id="episode",
            task_id="task",
            turn=1,
            prompt_ids=tokens(1),
            token_ids=tokens(longest),
            mask=(1, *(0,) * (work.prompt - 2), *(1,) * work.response),
            behaviour_logprobs=(-1.0,) * longest,
            advantages=(1.0,) * longest,
            version=0,
        )
        for number in range(work.sequences)
    ]


def _unreal(layout: Layout, mode: FakeTensorMode) -> Layout:
    """The layout with tensors of the same shapes without contents."""

    def without_contents(value: Any) -> Any:
        if isinstance(value, Tensor):
            return mode.from_tensor(value)
        if isinstance(value, Queries):
            return replace(value, item_Q=mode.from_tensor(value.item_Q), place=mode.from_tensor(value.place))
        return value

    return replace(layout, **{one.name: without_contents(getattr(layout, one.name)) for one in fields(layout)})
