"""The shape of a decoder from its config.json, or from its name where it is one that the paper's recipes name.

Only numbers: nothing is downloaded and no weights are read. The shapes of the named models are those that their
config.json states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actfirst.errors import CheckpointError, ConfigError
from actfirst.models.folder import is_shipped, local_model, read_config
from actfirst.models.hub import cached, is_hub_id

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
ARCHITECTURES = ("qwen3", "qwen2", "llama")
"""The model types whose forward pass the embedded engine and the learner write out themselves: see `hand_written`."""

LOGITS_AT_ONCE = 1 << 25
"""The learner makes logits for this many (token, vocabulary entry) pairs at a time: 128 MB in float32."""
_HEAD_TOKENS_ON_GPU = 2048
"""Fewer rows than this leave a GPU idle in the head's products."""


def head_tokens(vocabulary: int, *, gpu: bool) -> int:
    """Tokens whose logits the learner holds at a time."""
    return max(_HEAD_TOKENS_ON_GPU if gpu else 1, LOGITS_AT_ONCE // vocabulary)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder of one of the ARCHITECTURES. Qwen3 norms its queries and keys (`qk_norm`), Qwen2 has biases on queries,
    keys and values (`qkv_bias`), Llama has neither. `tied_embeddings`: the head is the embedding."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied_embeddings: bool
    qk_norm: bool = True
    qkv_bias: bool = False
    norm_eps: float = 1e-6
    rope_theta: float = 1e6
    max_positions: int = 40_960

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> ModelShape:
        """From the contents of a `config.json` (or `to_dict()` of a transformers config)."""
        rope = config.get("rope_parameters") or {}
        heads = int(config["num_attention_heads"])
        return cls(
            vocab_size=int(config["vocab_size"]),
            hidden_size=int(config["hidden_size"]),
            intermediate_size=int(config["intermediate_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            qk_norm=config["model_type"] == "qwen3",
            qkv_bias=config["model_type"] == "qwen2",
            norm_eps=float(config["rms_norm_eps"]),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0),
            max_positions=int(config["max_position_embeddings"]),
        )

    @property
    def group(self) -> int:
        """Query heads for each key-value head."""
        return self.heads // self.kv_heads

    @property
    def queries(self) -> int:
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def layer_parameters(self) -> int:
        return sum(map(math.prod, self._layer().values()))

    @property
    def outer_parameters(self) -> int:
        """Embedding, head and final norm."""
        return self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2) + self.hidden_size

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.outer_parameters

    @property
    def kv_values_per_token(self) -> int:
        return 2 * self.layers * self.keys

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """The tensors of the model's state dict. The head is among them also where embeddings are tied."""
        layer = self._layer()
        return {
            EMBEDDING: (self.vocab_size, self.hidden_size),
            HEAD: (self.vocab_size, self.hidden_size),
            "model.norm.weight": (self.hidden_size,),
            **{f"model.layers.{i}.{name}": layer[name] for i in range(self.layers) for name in layer},
        }

    def _layer(self) -> dict[str, tuple[int, ...]]:
        weights: dict[str, tuple[int, ...]] = {
            "input_layernorm": (self.hidden_size,),
            "post_attention_layernorm": (self.hidden_size,),
            "self_attn.q_proj": (self.queries, self.hidden_size),
            "self_attn.k_proj": (self.keys, self.hidden_size),
            "self_attn.v_proj": (self.keys, self.hidden_size),
            "self_attn.o_proj": (self.hidden_size, self.queries),
            "mlp.gate_proj": (self.intermediate_size, self.hidden_size),
            "mlp.up_proj": (self.intermediate_size, self.hidden_size),
            "mlp.down_proj": (self.hidden_size, self.intermediate_size),
        }
        if self.qk_norm:
            weights |= {"self_attn.q_norm": (self.head_dim,), "self_attn.k_norm": (self.head_dim,)}
        biases = {"q_proj": self.queries, "k_proj": self.keys, "v_proj": self.keys} if self.qkv_bias else {}
        return {
            **{f"{name}.weight": shape for name, shape in weights.items()},
            **{f"self_attn.{name}.bias": (width,) for name, width in biases.items()},
        }


NAMED: dict[str, ModelShape] = {
    "Qwen3-0.6B": ModelShape(151_936, 1024, 3072, 28, 16, 8, 128, tied_embeddings=True),
    "Qwen3-1.7B": ModelShape(151_936, 2048, 6144, 28, 16, 8, 128, tied_embeddings=True),
    "Qwen3-4B": ModelShape(151_936, 2560, 9728, 36, 32, 8, 128, tied_embeddings=True),
    "Qwen3-8B": ModelShape(151_936, 4096, 12_288, 36, 32, 8, 128, tied_embeddings=False),
}


def read_shape(folder: Path) -> ModelShape:
    """The shape that a folder's config.json states."""
    config = read_config(folder)
    try:
        return ModelShape.from_dict(config) if hand_written(config) else _general_shape(folder)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(
            f"{folder / 'config.json'} does not describe a model: {type(error).__name__}: {error}; copy it again"
        ) from error


def hand_written(config: Mapping[str, Any]) -> bool:
    """Whether a model with this config.json has a hand-written forward pass; all others run by that of transformers.

    There are such passes for the ARCHITECTURES with plain rotary positions, silu, full attention, and no biases but
    those of qwen2.
    """
    kind = config.get("model_type")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return (
        kind in ARCHITECTURES
        and rope.get("rope_type", rope.get("type", "default")) == "default"
        and rope.get("partial_rotary_factor", 1.0) == 1.0
        and config.get("hidden_act", "silu") == "silu"
        and not (config.get("attention_bias") and kind != "qwen2")
        and not config.get("mlp_bias")
        and not config.get("use_sliding_window")
        and set(config.get("layer_types") or ()) <= {"full_attention"}
    )


def _general_shape(folder: Path) -> ModelShape:
    """The sizes that a cache of keys and values has to know, by transformers' reading of the config.json."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        text = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    except StrictDataclassError as error:
        raise ValueError(str(error)[:300]) from error
    heads = int(text.num_attention_heads)
    return ModelShape(
        vocab_size=int(text.vocab_size),
        hidden_size=int(text.hidden_size),
        intermediate_size=int(getattr(text, "intermediate_size", None) or 4 * text.hidden_size),
        layers=int(text.num_hidden_layers),
        heads=heads,
        kv_heads=int(getattr(text, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(text, "head_dim", None) or text.hidden_size // heads),
        tied_embeddings=bool(text.tie_word_embeddings),
        qk_norm=False,
        max_positions=int(text.max_position_embeddings),
    )


def shape_of(model: str) -> tuple[str, ModelShape] | None:
    """A short name and the shape of what `models.student` or `models.teacher` says; None if it is not known."""
    try:
        folder = cached(model) if is_hub_id(model) else local_model(model, "models")
    except (ConfigError, CheckpointError):
        folder = None
    if folder is None:
        model = model.partition("@")[0]
        named = [name for name in NAMED if model.lower().endswith(name.lower())]
        return (named[0], NAMED[named[0]]) if named else None
    try:
        return _short(model, folder), read_shape(folder)
    except CheckpointError:
        return None


def _short(model: str, folder: Path) -> str:
    if is_shipped(model):
        return model
    return model.partition("@")[0].rpartition("/")[2] if is_hub_id(model) else folder.name
