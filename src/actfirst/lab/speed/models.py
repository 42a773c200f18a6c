"""Models of any size with random weights, in memory or as a checkpoint folder: for measurements only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.models.shapes import HEAD, ModelShape

if TYPE_CHECKING:
    import torch

HEAD_WIDTH = 32


@dataclass(frozen=True, slots=True)
class Size:
    """A Qwen3 decoder with one key-value head; the default is the pocket models' shape."""

    heads: int = 3
    layers: int = 3

    def config(self, vocabulary: int, positions: int) -> dict[str, object]:
        """A `config.json` of transformers."""
        hidden = self.heads * HEAD_WIDTH
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": vocabulary,
            "hidden_size": hidden,
            "intermediate_size": hidden * 8 // 3,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": 1,
            "head_dim": HEAD_WIDTH,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
            "max_position_embeddings": positions,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "dtype": "float32",
        }


def write_checkpoint(folder: Path, config: Mapping[str, object]) -> int:
    """A random model as a folder for `from_pretrained`, without a tokenizer; returns its number of parameters."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    weights = random_weights(ModelShape.from_dict(config))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return sum(tensor.numel() for tensor in weights.values())


def random_weights(model: ModelShape) -> dict[str, torch.Tensor]:
    import torch

    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.ones(shape) if len(shape) == 1 else 0.05 * torch.randn(shape, generator=generator)
        for name, shape in model.tensors().items()
        if name != HEAD
    }
