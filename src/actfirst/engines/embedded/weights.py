"""The weights in the form in which a step is cheapest, and how a Hugging Face state dict is packed into it.

What packing does, once for each set of weights instead of once for each step:
- q, k and v of one key-value group lie side by side: one product gives rows [G queries, key, value];
- matrices are stored as `matrices.py` says;
- RMS norm weights (and the factor sqrt(width) of the norm) are multiplied into the matrix that follows;
- 1 / sqrt(head_dim) is multiplied into the queries;
- the two halves that rotary embedding pairs are interleaved, so that rotating is one complex product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from actfirst.engines.embedded.matrices import Gated, Matrix, Plain, blocked, gated, matrix
from actfirst.models.shapes import HEAD, ModelShape


@dataclass(slots=True)
class PackedLayer:
    """One decoder layer. `qk_scale` is the norm weight of queries and key, or None.

    `qkv_bias` are the biases of queries, key and value, or None.
    """

    qkv: Matrix  # [hidden, kv_heads * (group + 2) * head_dim]
    qkv_bias: Tensor | None  # [kv_heads * (group + 2) * head_dim]
    qk_scale: Tensor | None  # [group + 1, head_dim]
    out: Matrix  # [heads * head_dim, hidden]
    gated: Gated  # [hidden, intermediate]
    down: Matrix  # [intermediate, hidden]


class PackedWeights:
    """All weights of a model."""

    def __init__(self, config: ModelShape, dtype: torch.dtype) -> None:
        c = config
        self.config = config

        def empty(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.empty(*shape, dtype=dtype)

        self.embed_VH = empty(c.vocab_size, c.hidden_size)
        self._shared = c.tied_embeddings and not blocked(c.hidden_size, c.vocab_size, dtype)
        self.head = Plain(self.embed_VH.t()) if self._shared else matrix(c.hidden_size, c.vocab_size, dtype)
        self.final_norm_H = empty(c.hidden_size, dtype=torch.float32)
        self.layers = [
            PackedLayer(
                qkv=matrix(c.hidden_size, c.kv_heads * (c.group + 2) * c.head_dim, dtype),
                qkv_bias=empty(c.kv_heads * (c.group + 2) * c.head_dim) if c.qkv_bias else None,
                qk_scale=empty(c.group + 1, c.head_dim, dtype=torch.float32) if c.qk_norm else None,
                out=matrix(c.heads * c.head_dim, c.hidden_size, dtype),
                gated=gated(c.hidden_size, c.intermediate_size, dtype),
                down=matrix(c.intermediate_size, c.hidden_size, dtype),
            )
            for _ in range(c.layers)
        ]

    def install(self, state: Mapping[str, Tensor]) -> None:
        """Copy a state dict in. Names and shapes are known to fit."""
        width = float(self.config.hidden_size) ** 0.5
        self.embed_VH.copy_(state["model.embed_tokens.weight"])
        if not self._shared:
            head_VH = self.embed_VH if self.config.tied_embeddings else state[HEAD]
            self.head.install(head_VH.t())
        self.final_norm_H.copy_(state["model.norm.weight"]).mul_(width)
        for i, layer in enumerate(self.layers):
            self._install_layer(layer, state, f"model.layers.{i}.", width)

    def tensors(self) -> list[Tensor]:
        """All of them, each once."""
        found = [self.embed_VH, self.final_norm_H]
        found += [] if self._shared else self.head.tensors()
        for layer in self.layers:
            found += [*layer.qkv.tensors(), *layer.out.tensors(), *layer.gated.tensors(), *layer.down.tensors()]
            found += [tensor for tensor in (layer.qk_scale, layer.qkv_bias) if tensor is not None]
        return found

    def _install_layer(
        self, layer: PackedLayer, state: Mapping[str, Tensor], prefix: str, width: float
    ) -> None:
        c, group = self.config, self.config.group

        def read(name: str, what: str = "weight") -> Tensor:
            return state[f"{prefix}{name}.{what}"].to(self.embed_VH.device, torch.float32)

        perm = torch.arange(c.head_dim).view(2, -1).t().reshape(-1)
        into_attention = (read("input_layernorm") * width).view(-1, 1, 1, 1)
        into_mlp = (read("post_attention_layernorm") * width).unsqueeze(1)
        query_scale = float(c.head_dim) ** -0.5
        if layer.qk_scale is not None:
            scale = float(c.head_dim) ** 0.5
            layer.qk_scale[:group] = read("self_attn.q_norm")[perm] * (query_scale * scale)
            layer.qk_scale[group] = read("self_attn.k_norm")[perm] * scale
            query_scale = 1.0

        def heads(name: str) -> Tensor:
            return read(f"self_attn.{name}_proj").t().view(c.hidden_size, c.kv_heads, -1, c.head_dim)

        query = heads("q")[..., perm] * (into_attention * query_scale)
        key, value = heads("k")[..., perm] * into_attention, heads("v") * into_attention
        layer.qkv.install(torch.cat((query, key, value), 2).view(c.hidden_size, -1))
        if layer.qkv_bias is not None:
            bias = layer.qkv_bias.view(c.kv_heads, group + 2, c.head_dim)
            q, k, v = (
                read(f"self_attn.{name}_proj", "bias").view(c.kv_heads, -1, c.head_dim) for name in "qkv"
            )
            bias[:, :group], bias[:, group : group + 1], bias[:, group + 1 :] = (
                q[..., perm] * query_scale,
                k[..., perm],
                v,
            )
        layer.out.install(read("self_attn.o_proj").t())
        layer.gated.install(read("mlp.gate_proj").t() * into_mlp, read("mlp.up_proj").t() * into_mlp)
        layer.down.install(read("mlp.down_proj").t())
