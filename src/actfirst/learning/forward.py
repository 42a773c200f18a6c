"""The student's log-probs at supervised tokens: an own forward pass over the modules of a transformers model.

It computes what `AutoModelForCausalLM` computes (temperature 1), but on the rows of a `Layout`, and it computes
only what a supervised token depends on: the last layer's queries, output projection and MLP, the final norm and
the head run at supervised positions alone. It holds no weights and registers no hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from actfirst.learning.ops import rms_norm, rotate
from actfirst.learning.packing import Layout
from actfirst.models.general import Form, causal, head, run

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


# What each supported architecture does to its heads before they are rotated. The rest is the same: biases, where there
# are any, are in the modules of the projections.
ARCHITECTURES: dict[str, Heads] = {"qwen3": _normed_heads, "qwen2": _plain_heads, "llama": _plain_heads}


def general_states(model: Module, layout: Layout) -> Tensor:
    """As `supervised_states`, by the model's own forward pass: for architectures without one here."""

    def attend(layer: int, q_HTD: Tensor, k_KTD: Tensor, v_KTD: Tensor, form: Form) -> Tensor:
        query_Q = q_HTD.transpose(0, 1).index_select(0, layout.rows.item_Q)
        key_P, value_P = (stream.transpose(0, 1).index_select(0, layout.row_P) for stream in (k_KTD, v_KTD))
        mixed = []
        asked = [(count, length - start) for (count, length), start in zip(layout.groups, layout.rows.starts)]
        for queries, group, query, key, value in zip(
            asked,
            layout.groups,
            _split(query_Q, asked),
            _split(key_P, layout.groups),
            _split(value_P, layout.groups),
        ):
            answer = causal(
                _grouped(query, queries),
                _grouped(key, group),
                _grouped(value, group),
                form,
            )
            mixed.append(answer.transpose(1, 2).flatten(0, 1))
        return torch.cat(mixed).index_select(0, layout.rows.place)

    return run(model, layout.token_U, layout.position_U, attend).index_select(0, layout.row_N)


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
    layer, heads = model.model.layers[number], ARCHITECTURES[model.config.model_type]
    attention, normed = layer.self_attn, _norm(layer.input_layernorm, state)
    asking, rotation, queries = normed, rotation_U, layout.rows
    if number == len(model.model.layers) - 1:
        # Keys and values everywhere, all else at supervised positions only.
        rows, queries = layout.row_N, layout.supervised
        state, asking = state.index_select(0, rows), normed.index_select(0, rows)
        rotation = (rotation_U[0][rows], rotation_U[1][rows])
    query, key, value = _project(attention, heads, asking, normed, rotation, rotation_U)
    mixed_Q = _attend(
        attention,
        layout.groups,
        queries.starts,
        # Where nobody asks, the first query is asked again: that answer is not read.
        query.index_select(0, queries.item_Q),
        key.index_select(0, layout.row_P),
        value.index_select(0, layout.row_P),
    )
    state = state + attention.o_proj(mixed_Q.index_select(0, queries.place))
    return state + layer.mlp(_norm(layer.post_attention_layernorm, state))  # type: ignore[no-any-return]


def logprobs(model: Module, state_NH: Tensor, target_N: Tensor) -> Tensor:
    """Log-prob of each target under the full vocabulary, in float32."""
    logits_NV = head(model, state_NH).float()
    return -functional.cross_entropy(logits_NV, target_N, reduction="none")


def logprobs_and_entropy(model: Module, state_NH: Tensor, target_N: Tensor) -> tuple[Tensor, Tensor]:
    """As `logprobs`, and the entropy of the distribution at each place; needs the logits once more in memory."""
    logp_NV = functional.log_softmax(head(model, state_NH).float(), dim=-1)
    entropy_N = -(logp_NV.exp() * logp_NV).sum(-1)
    return logp_NV.gather(-1, target_N.unsqueeze(-1)).squeeze(-1), entropy_N


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
    attention: Module,
    groups: Sequence[tuple[int, int]],
    starts: Sequence[int],
    query_Q: Tensor,
    key_P: Tensor,
    value_P: Tensor,
) -> Tensor:
    """Causal attention inside every sequence of every group, from its start on: (Q, heads x head size)."""
    asked = [(count, length - start) for (count, length), start in zip(groups, starts)]
    mixed = []
    for queries, group, query, key, value in zip(
        asked, groups, _split(query_Q, asked), _split(key_P, groups), _split(value_P, groups)
    ):
        answer = functional.scaled_dot_product_attention(
            # Of one type: autocast does not reach attention with a bias of this class.
            _grouped(query, queries).to(value.dtype),
            _grouped(key, group).to(value.dtype),
            _grouped(value, group),
            attn_mask=causal_lower_right(queries[1], group[1]),
            scale=attention.scaling,
            enable_gqa=True,
        )
        mixed.append(answer.transpose(1, 2).flatten(0, 1).flatten(1))
    return torch.cat(mixed) if len(mixed) > 1 else mixed[0]


def _grouped(stream: Tensor, group: tuple[int, int]) -> Tensor:
    """(sequences, heads, length, head size) of the rows of a group."""
    return stream.view(*group, *stream.shape[1:]).transpose(1, 2)


def _split(stream: Tensor, groups: Sequence[tuple[int, int]]) -> tuple[Tensor, ...]:
    return torch.split(stream, [count * length for count, length in groups])
