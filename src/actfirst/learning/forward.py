"""The student's log-probs at supervised tokens: an own forward pass over the modules of a transformers model.

It computes what `AutoModelForCausalLM` computes (temperature 1), but on the rows of a `Layout`, and it computes
only what a supervised token depends on: the last layer's queries, output projection and MLP, the final norm and
the head run at supervised positions alone. It holds no weights and registers no hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from actfirst.errors import CheckpointError
from actfirst.learning.ops import rms_norm, rotate
from actfirst.learning.packing import Layout

# transformers is not typed; what is used of its modules is named below.
Module: TypeAlias = Any
Rotation: TypeAlias = tuple[Tensor, Tensor]
# Runs the decoder layer of that number; a placement of the weights may put something around `decoder_layer`.
LayerCall: TypeAlias = Callable[[int, Tensor, Rotation, Layout], Tensor]
Heads: TypeAlias = Callable[[Module, Tensor, Tensor], tuple[Tensor, Tensor]]


def _normed_heads(attention: Module, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return _norm(attention.q_norm, query), _norm(attention.k_norm, key)


def _plain_heads(attention: Module, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return query, key


# What each supported architecture does to its heads before they are rotated; the rest is the same.
ARCHITECTURES: dict[str, Heads] = {"qwen3": _normed_heads, "llama": _plain_heads}


def check_architecture(config: Module) -> None:
    """Raise CheckpointError unless the forward pass below is this model's."""
    if config.model_type not in ARCHITECTURES:
        raise CheckpointError(
            f"the learner cannot train a {config.model_type!r} model; it knows {', '.join(ARCHITECTURES)}"
        )
    kinds = set(config.to_dict().get("layer_types") or ()) - {"full_attention"}
    if kinds:
        raise CheckpointError(
            f"the learner has full attention only, and this model has {', '.join(sorted(kinds))}"
        )


def supervised_states(model: Module, layout: Layout, call: LayerCall | None = None) -> Tensor:
    """The final hidden state (N x H) from which each supervised token is predicted."""
    decoder = model.model
    call = call or partial(decoder_layer, model)
    state = decoder.embed_tokens(layout.token_U)
    cos, sin = decoder.rotary_emb(state, layout.position_U.unsqueeze(0))
    # transformers repeats the angles for both halves of a head; one half is enough here.
    half = cos.shape[-1] // 2
    rotation_U = (cos[0, :, None, :half], sin[0, :, None, :half])
    for number in range(len(decoder.layers)):
        state = call(number, state, rotation_U, layout)
    return _norm(decoder.norm, state)


def decoder_layer(model: Module, number: int, state: Tensor, rotation_U: Rotation, layout: Layout) -> Tensor:
    """One decoder layer: rows in (U x H), rows out; the last one gives supervised positions only (N x H)."""
    layers, heads = model.model.layers, ARCHITECTURES[model.config.model_type]
    run = _last_layer if number == len(layers) - 1 else _layer
    return run(layers[number], heads, state, rotation_U, layout)


def logprobs(model: Module, state_NH: Tensor, target_N: Tensor) -> Tensor:
    """Log-prob of each target under the full vocabulary, in float32."""
    logits_NV = model.lm_head(state_NH).float()
    return -functional.cross_entropy(logits_NV, target_N, reduction="none")


def _layer(layer: Module, heads: Heads, state: Tensor, rotation_U: Rotation, layout: Layout) -> Tensor:
    attention, rows = layer.self_attn, layout.row_P
    normed = _norm(layer.input_layernorm, state)
    query, key, value = _project(attention, heads, normed, normed, rotation_U, rotation_U)
    places = (part.index_select(0, rows) for part in (query, key, value))
    mixed_P = _attend(attention, layout.groups, *places)
    state = state + attention.o_proj(mixed_P.index_select(0, layout.place_U))
    return state + layer.mlp(_norm(layer.post_attention_layernorm, state))  # type: ignore[no-any-return]


def _last_layer(layer: Module, heads: Heads, state: Tensor, rotation_U: Rotation, layout: Layout) -> Tensor:
    """As `_layer`, but keys and values everywhere and all else at supervised positions only."""
    attention, rows, asked = layer.self_attn, layout.row_P, layout.row_N
    normed = _norm(layer.input_layernorm, state)
    rotation_N = (rotation_U[0][asked], rotation_U[1][asked])
    query, key, value = _project(
        attention, heads, normed.index_select(0, asked), normed, rotation_N, rotation_U
    )
    # Places that predict nothing ask the first query again: their answers are not read.
    query_P = query.index_select(0, layout.query_P)
    mixed_P = _attend(attention, layout.groups, query_P, key.index_select(0, rows), value.index_select(0, rows))
    state = state.index_select(0, asked) + attention.o_proj(mixed_P.index_select(0, layout.place_N))
    return state + layer.mlp(_norm(layer.post_attention_layernorm, state))  # type: ignore[no-any-return]


def _project(
    attention: Module, heads: Heads, asking: Tensor, asked: Tensor, rotation_q: Rotation, rotation_k: Rotation
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of the rows `asking`, keys and values of the rows `asked`: (rows, heads, head size) each."""
    size = attention.head_dim
    query, key = heads(
        attention,
        attention.q_proj(asking).unflatten(-1, (-1, size)),
        attention.k_proj(asked).unflatten(-1, (-1, size)),
    )
    value = attention.v_proj(asked).unflatten(-1, (-1, size))
    return rotate(query, *rotation_q), rotate(key, *rotation_k), value


def _norm(norm: Module, state: Tensor) -> Tensor:
    return rms_norm(state.float(), norm.weight.float(), norm.variance_epsilon)


def _attend(
    attention: Module, groups: tuple[tuple[int, int], ...], query_P: Tensor, key_P: Tensor, value_P: Tensor
) -> Tensor:
    """Causal attention inside every sequence of every group: (P, heads x head size)."""
    mixed = []
    sizes = [count * length for count, length in groups]
    for group, *streams in zip(groups, *(torch.split(stream, sizes) for stream in (query_P, key_P, value_P))):
        query, key, value = (stream.unflatten(0, group).transpose(1, 2) for stream in streams)
        answer = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=attention.scaling, enable_gqa=True
        )
        mixed.append(answer.transpose(1, 2).flatten(0, 1).flatten(1))
    return torch.cat(mixed) if len(mixed) > 1 else mixed[0]
