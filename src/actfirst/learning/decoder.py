"""The modules of a decoder with a hand-written forward pass: the parameters, under their Hugging Face names.

They stand where transformers' modules would, in its order and under its names, so that importing transformers, which
takes seconds, is not needed to train. What is computed with them stands in `forward.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from actfirst.errors import CheckpointError
from actfirst.models.files import read_weights
from actfirst.models.folder import read_config
from actfirst.models.shapes import HEAD, ModelShape, read_shape


@dataclass(frozen=True)
class DecoderConfig:
    """What is asked of a model's configuration, under transformers' names."""

    model_type: str
    vocab_size: int
    tie_word_embeddings: bool

    def get_text_config(self) -> DecoderConfig:
        return self


def open_decoder(folder: Path) -> Decoder:
    """The model of a checkpoint folder, in float32."""
    kind, shape = read_config(folder)["model_type"], read_shape(folder)
    decoder = Decoder(kind, shape)
    stored, asked = read_weights(folder), decoder.state_dict()
    given: dict[str, Tensor] = {}
    for name, place in asked.items():
        if name == HEAD and shape.tied_embeddings:
            continue
        tensor = stored.get(name)
        if tensor is None or tensor.shape != place.shape:
            fault = "is missing" if tensor is None else f"is {tuple(tensor.shape)}, not {tuple(place.shape)}"
            raise CheckpointError(f"{folder} is no whole checkpoint: {name} {fault}; copy it again")
        # A copy: what is read may be the file itself.
        given[name] = tensor.to(torch.float32, copy=True)
    decoder.load_state_dict(given, strict=False, assign=True)
    if shape.tied_embeddings:
        decoder.lm_head.weight = decoder.model.embed_tokens.weight
    return decoder.requires_grad_()


class Decoder(nn.Module):
    """The parameters have no values until they are given some."""

    def __init__(self, kind: str, shape: ModelShape) -> None:
        super().__init__()
        self.config = DecoderConfig(kind, shape.vocab_size, shape.tied_embeddings)
        self.model = _Body(shape)
        self.lm_head = _linear(shape.hidden_size, shape.vocab_size)

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head


class _Body(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(
            shape.vocab_size, shape.hidden_size, _weight=_empty(shape.vocab_size, shape.hidden_size)
        )
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.norm = _Norm(shape.hidden_size, shape.norm_eps)
        self.rotary_emb = _Rotary(shape)


class _Layer(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.self_attn = _Attention(shape)
        self.mlp = _Mlp(shape)
        self.input_layernorm = _Norm(shape.hidden_size, shape.norm_eps)
        self.post_attention_layernorm = _Norm(shape.hidden_size, shape.norm_eps)


class _Attention(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.head_dim, self.scaling = shape.head_dim, shape.head_dim**-0.5
        self.q_proj = _linear(shape.hidden_size, shape.queries, bias=shape.qkv_bias)
        self.k_proj = _linear(shape.hidden_size, shape.keys, bias=shape.qkv_bias)
        self.v_proj = _linear(shape.hidden_size, shape.keys, bias=shape.qkv_bias)
        self.o_proj = _linear(shape.queries, shape.hidden_size)
        if shape.qk_norm:
            self.q_norm = _Norm(shape.head_dim, shape.norm_eps)
            self.k_norm = _Norm(shape.head_dim, shape.norm_eps)


class _Mlp(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate_proj = _linear(shape.hidden_size, shape.intermediate_size)
        self.up_proj = _linear(shape.hidden_size, shape.intermediate_size)
        self.down_proj = _linear(shape.intermediate_size, shape.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return mixed


class _Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(_empty(width))
        self.variance_epsilon = eps


class _Rotary(nn.Module):
    """Angles in float32 throughout, as transformers has them."""

    inverse_C: Tensor

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        exponent = torch.arange(0, shape.head_dim, 2, dtype=torch.int64).float() / shape.head_dim
        self.register_buffer("inverse_C", 1.0 / (shape.rope_theta**exponent), persistent=False)

    def forward(self, state: Tensor, position_1U: Tensor) -> tuple[Tensor, Tensor]:
        angle = position_1U.unsqueeze(-1).float() * self.inverse_C
        both = torch.cat((angle, angle), dim=-1)
        return both.cos().to(state.dtype), both.sin().to(state.dtype)


def _linear(inputs: int, outputs: int, *, bias: bool = False) -> nn.Linear:
    """Without drawing first values, which takes long for a large matrix."""
    made = nn.Linear(1, 1, bias=bias)
    made.in_features, made.out_features = inputs, outputs
    made.weight = nn.Parameter(_empty(outputs, inputs))
    if bias:
        made.bias = nn.Parameter(_empty(outputs))
    return made


def _empty(*shape: int) -> Tensor:
    return torch.empty(shape, device="meta")
