"""Models of any size with random weights, in memory or as a checkpoint folder: for measurements only."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.config.sections import EngineSection
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.models.files import ModelFiles
from actfirst.models.shapes import HEAD, ModelShape

if TYPE_CHECKING:
    import torch

_HEAD = 32


@dataclass(frozen=True, slots=True)
class Size:
    """A Qwen3 decoder with one key-value head; the default is the pocket models' shape."""

    heads: int = 3
    layers: int = 3

    @property
    def hidden(self) -> int:
        return self.heads * _HEAD

    def wider(self, factor: int) -> Size:
        return replace(self, heads=self.heads * factor)

    def deeper(self, factor: int) -> Size:
        return replace(self, layers=self.layers * factor)

    def config(self, vocabulary: int, positions: int) -> dict[str, object]:
        """A `config.json` of transformers."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.hidden * 8 // 3,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": 1,
            "head_dim": _HEAD,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
            "max_position_embeddings": positions,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "dtype": "float32",
        }


def random_engine(size: Size, vocabulary: int, positions: int, settings: EngineSection) -> EmbeddedEngine:
    """An embedded engine over random weights, without a tokenizer and without an end of sequence."""
    shape = ModelShape.from_dict(size.config(vocabulary, positions))
    return EmbeddedEngine(ModelFiles(shape, frozenset(), None), _random_weights(shape), settings)


def write_checkpoint(folder: Path, size: Size, vocabulary: int, positions: int) -> Path:
    """The same as a folder for `from_pretrained`."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    stated = size.config(vocabulary, positions)
    (folder / "config.json").write_text(json.dumps(stated, indent=1), encoding="utf-8")
    save_file(_random_weights(ModelShape.from_dict(stated)), folder / "model.safetensors", {"format": "pt"})
    return folder


def _random_weights(model: ModelShape) -> dict[str, torch.Tensor]:
    import torch

    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.ones(shape) if len(shape) == 1 else 0.05 * torch.randn(shape, generator=generator)
        for name, shape in model.tensors().items()
        if name != HEAD
    }
