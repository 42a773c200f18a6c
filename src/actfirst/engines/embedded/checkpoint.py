"""Reads a transformers checkpoint folder: shape of the model, weights, end-of-sequence ids, token bytes.

The JSON files and safetensors are read directly: nothing here needs the transformers library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from actfirst.engines.token_text import TokenText
from actfirst.errors import EngineError


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a Qwen3 or Llama decoder; `qk_norm` is what tells them apart."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    max_positions: int
    tied_embeddings: bool
    qk_norm: bool

    @property
    def group(self) -> int:
        """Query heads for each key-value head."""
        return self.heads // self.kv_heads

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> ModelConfig:
        """From the contents of a `config.json` (or `to_dict()` of a transformers config)."""
        _refuse_unsupported(config)
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
            norm_eps=float(config["rms_norm_eps"]),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0),
            max_positions=int(config["max_position_embeddings"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            qk_norm=config["model_type"] == "qwen3",
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint folder holds beside its weights. `tokens` is None when there is no tokenizer.json."""

    config: ModelConfig
    eos_ids: frozenset[int]
    tokens: TokenText | None


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read everything but the weights."""
    if not (folder / "config.json").is_file():
        raise EngineError(f"{folder} holds no config.json: give the folder of a transformers checkpoint")
    config = _json(folder / "config.json")
    tokenizer = _tokenizer(folder / "tokenizer.json")
    tokens = TokenText.from_tokenizer(tokenizer) if tokenizer is not None else None
    try:
        shape = ModelConfig.from_dict(config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise EngineError(
            f"{folder / 'config.json'} does not describe a model: {type(error).__name__}: {error}; copy it again"
        ) from error
    return Checkpoint(shape, _eos_ids(folder, config, tokenizer), tokens)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of `model.safetensors`, or of the shards that its index names."""
    return dict(_tensors(folder))


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        shards = [single]
    elif index.is_file():
        shards = [folder / name for name in sorted(set(_json(index).get("weight_map", {}).values()))]
    else:
        raise EngineError(f"{folder} holds neither model.safetensors nor model.safetensors.index.json")
    for shard in shards:
        if not shard.is_file():
            raise EngineError(f"{shard} is named by the index but missing: the checkpoint is incomplete")
        try:
            with safe_open(shard, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (not a mapping)
                    yield name, tensors.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise EngineError(f"{shard} cannot be read: {error}; copy the checkpoint again") from error


def _tokenizer(path: Path) -> Tokenizer | None:
    if not path.is_file():
        return None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise EngineError(f"{path} cannot be read: {error}; copy the checkpoint again") from error


def _eos_ids(folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer | None) -> frozenset[int]:
    """Every id that some file of the checkpoint calls end of sequence."""
    found: set[int] = set()
    for source in (config, _json(folder / "generation_config.json")):
        value = source.get("eos_token_id")
        if value is not None:
            found.update(value if isinstance(value, list) else [value])
    eos = _json(folder / "tokenizer_config.json").get("eos_token")
    text = eos["content"] if isinstance(eos, dict) else eos
    i = tokenizer.token_to_id(text) if tokenizer is not None and text else None
    return frozenset(found if i is None else found | {i})


def _refuse_unsupported(config: Mapping[str, Any]) -> None:
    kind = config.get("model_type")
    if kind not in ("qwen3", "llama"):
        raise EngineError(f"the embedded engine runs qwen3 and llama models, not {kind!r}; choose one of those")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    problems = {
        f"rope type {rope_type!r}": rope_type != "default",
        f"activation {config.get('hidden_act')!r}": config.get("hidden_act", "silu") != "silu",
        "attention biases": bool(config.get("attention_bias")),
        "MLP biases": bool(config.get("mlp_bias")),
        "sliding-window attention": bool(config.get("use_sliding_window")),
    }
    for problem, present in problems.items():
        if present:
            raise EngineError(
                f"the embedded engine does not support {problem}; it runs plain qwen3 and llama models: default "
                "rope, silu, no biases, full attention"
            )


def _json(path: Path) -> dict[str, Any]:
    """The contents of a JSON file; empty when there is none."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{path} cannot be read: {error}; copy the checkpoint again") from error
    if not isinstance(content, dict):
        raise EngineError(f"{path} holds no JSON object; copy the checkpoint again")
    return content
