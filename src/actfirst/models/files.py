"""Reads the files of a model's folder without the transformers library: weights, end-of-sequence ids, token bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from actfirst.errors import CheckpointError
from actfirst.models.folder import read_config, read_json
from actfirst.models.shapes import ModelShape, read_shape
from actfirst.models.token_text import TokenText
from actfirst.models.tokenizer import read_tokenizer


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a model's folder holds beside its weights. `tokens` is None when there is no tokenizer.json."""

    shape: ModelShape
    eos_ids: frozenset[int]
    tokens: TokenText | None


def read_files(folder: Path) -> ModelFiles:
    """Read everything but the weights."""
    shape, tokenizer = read_shape(folder), _tokenizer(folder / "tokenizer.json")
    tokens = TokenText.from_tokenizer(tokenizer) if tokenizer is not None else None
    return ModelFiles(shape, eos_ids(folder, tokenizer), tokens)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of `model.safetensors`, or of the shards that its index names."""
    return dict(_tensors(folder))


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        shards = [single]
    elif index.is_file():
        shards = [folder / name for name in sorted(set(read_json(index).get("weight_map", {}).values()))]
    else:
        raise CheckpointError(f"{folder} holds neither model.safetensors nor model.safetensors.index.json")
    for shard in shards:
        if not shard.is_file():
            raise CheckpointError(f"{shard} is named by the index but missing: the checkpoint is incomplete")
        try:
            with safe_open(shard, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (not a mapping)
                    yield name, tensors.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{shard} cannot be read: {error}; copy the checkpoint again") from error


def _tokenizer(path: Path) -> Tokenizer | None:
    return read_tokenizer(path) if path.is_file() else None


def eos_ids(folder: Path, tokenizer: Tokenizer | None = None) -> frozenset[int]:
    """Every id that some file of the folder calls end of sequence."""
    tokenizer = tokenizer or _tokenizer(folder / "tokenizer.json")
    found: set[int] = set()
    for source in (read_config(folder), read_json(folder / "generation_config.json")):
        value = source.get("eos_token_id")
        if value is not None:
            found.update(value if isinstance(value, list) else [value])
    eos = read_json(folder / "tokenizer_config.json").get("eos_token")
    text = eos["content"] if isinstance(eos, dict) else eos
    i = tokenizer.token_to_id(text) if tokenizer is not None and text else None
    return frozenset(found if i is None else found | {i})
