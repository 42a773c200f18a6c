"""The shape of a model from its config.json, or from its name where it is one that the paper's recipes name.

Only numbers: nothing is downloaded and no weights are read. The shapes of the named models are those that their
config.json states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from actfirst.errors import ConfigError
from actfirst.models.folder import resolve_model


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What counts for memory. `tied`: embedding and head are one matrix. `normed_heads`: Qwen3 has, Llama has not."""

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    tied: bool
    normed_heads: bool = True

    @property
    def queries(self) -> int:
        return self.heads * self.head_size

    @property
    def keys(self) -> int:
        return self.kv_heads * self.head_size

    @property
    def layer_parameters(self) -> int:
        attention = self.hidden * (2 * self.queries + 2 * self.keys)
        norms = 2 * self.hidden + (2 * self.head_size if self.normed_heads else 0)
        return attention + 3 * self.hidden * self.intermediate + norms

    @property
    def outer_parameters(self) -> int:
        """Embedding, head and final norm."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.outer_parameters

    @property
    def kv_values_per_token(self) -> int:
        return 2 * self.layers * self.keys


NAMED: dict[str, ModelShape] = {
    "Qwen3-0.6B": ModelShape(151_936, 1024, 3072, 28, 16, 8, 128, tied=True),
    "Qwen3-1.7B": ModelShape(151_936, 2048, 6144, 28, 16, 8, 128, tied=True),
    "Qwen3-4B": ModelShape(151_936, 2560, 9728, 36, 32, 8, 128, tied=True),
    "Qwen3-8B": ModelShape(151_936, 4096, 12_288, 36, 32, 8, 128, tied=False),
}


def shape_of(model: str) -> tuple[str, ModelShape] | None:
    """A short name and the shape of what `models.student` or `models.teacher` says; None if it is not known."""
    try:
        folder = resolve_model(model, "models")
    except ConfigError:
        named = [name for name in NAMED if model.lower().endswith(name.lower())]
        return (named[0], NAMED[named[0]]) if named else None
    return _short(model, folder), _read(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def _short(model: str, folder: Path) -> str:
    return model if model.startswith("pocket:") else folder.name


def _read(config: Mapping[str, object]) -> ModelShape:
    def number(key: str, otherwise: int = 0) -> int:
        return int(str(config.get(key) or otherwise))

    hidden, heads = number("hidden_size"), number("num_attention_heads")
    return ModelShape(
        vocabulary=number("vocab_size"),
        hidden=hidden,
        intermediate=number("intermediate_size"),
        layers=number("num_hidden_layers"),
        heads=heads,
        kv_heads=number("num_key_value_heads", heads),
        head_size=number("head_dim", hidden // max(1, heads)),
        tied=bool(config.get("tie_word_embeddings", False)),
        normed_heads=config.get("model_type") == "qwen3",
    )
