"""The student's log-probs at supervised tokens: an own forward pass over the modules of a transformers model.

It computes what `AutoModelForCausalLM` computes (temperature 1), but on the rows of a `Layout`, and it computes
only what a supervised token depends on: the last layer's queries, output projection and MLP, the final norm and
the head run at supervised positions alone. It holds no weights and registers no hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from actfirst.learning.packing import Layout
from actfirst.learning.pieces import PLAIN, Module, Pieces, Rotation
from actfirst.models.general import Form, causal, head, run

# Runs the decoder layer of that number; a placement of the weights may put something around `decoder_layer`.
LayerCall: TypeAlias = Callable[[int, Tensor, Rotation, Layout], Tensor]
HeadNorms: TypeAlias = Callable[[Module], tuple[Module | None, Module | None]]

# The norms of queries and keys before they are rotated. The rest is the same: biases, where there are any, are in the
# modules of the projections.
ARCHITECTURES: dict[str, HeadNorms] = {
    "qwen3": lambda attention: (attention.q_norm, attention.k_norm),
    "qwen2": lambda attention: (None, None),
    "llama": lambda attention: (None, None),
}


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


def supervised_states(
    model: Module, layout: Layout, call: LayerCall | None = None, pieces: Pieces = PLAIN
) -> Tensor:
    """The final hidden state (N x H) from which each supervised token is predicted."""
    decoder = model.model
    call = call or partial(decoder_layer, model, pieces)
    state = decoder.embed_tokens(layout.token_U)
    cos, sin = decoder.rotary_emb(state, layout.position_U.unsqueeze(0))
    # transformers repeats the angles for both halves of a head; one half is enough here.
    half = cos.shape[-1] // 2
    rotation_U = (cos[0, :, None, :half], sin[0, :, None, :half])
    for number in range(len(decoder.layers)):
        state = call(number, state, rotation_U, layout)
    return pieces.normed(state, decoder.norm)[1]


def decoder_layer(
    model: Module, pieces: Pieces, number: int, state: Tensor, rotation_U: Rotation, layout: Layout
) -> Tensor:
    """One decoder layer: rows in (U x H), rows out; the last one gives supervised positions only (N x H)."""
    layer = model.model.layers[number]
    attention = layer.self_attn
    state, normed = pieces.normed(state, layer.input_layernorm)
    asking, rotation, queries = normed, rotation_U, layout.rows
    if number == len(model.model.layers) - 1:
        # Keys and values everywhere, all else at supervised positions only.
        rows, queries = layout.row_N, layout.supervised
        state, asking = state.index_select(0, rows), normed.index_select(0, rows)
        rotation = (rotation_U[0][rows], rotation_U[1][rows])
    q_norm, k_norm = ARCHITECTURES[model.config.model_type](attention)
    query, key, value = (
        projection(rows).unflatten(-1, (-1, attention.head_dim))
        for projection, rows in (
            (attention.q_proj, asking),
            (attention.k_proj, normed),
            (attention.v_proj, normed),
        )
    )
    mixed_Q = _attend(
        attention,
        layout.groups,
        queries.starts,
        # Where nobody asks, the first query is asked again: that answer is not read.
        pieces.turned(query, q_norm, rotation).index_select(0, queries.item_Q),
        pieces.turned(key, k_norm, rotation_U).index_select(0, layout.row_P),
        value.index_select(0, layout.row_P),
    )
    mixed = attention.o_proj(mixed_Q.index_select(0, queries.place))
    state, normed = pieces.added(state, mixed, layer.post_attention_layernorm)
    return state + pieces.mlp(layer.mlp, normed)


def logprobs(model: Module, state_NH: Tensor, target_N: Tensor, pieces: Pieces = PLAIN) -> Tensor:
    """Log-prob of each target under the full vocabulary, in float32."""
    return pieces.target_logprobs(head(model, state_NH), target_N)


def logprobs_and_entropy(model: Module, state_NH: Tensor, target_N: Tensor) -> tuple[Tensor, Tensor]:
    """As `logprobs`, and the entropy of the distribution at each place; needs the logits once more in memory."""
    logp_NV = functional.log_softmax(head(model, state_NH).float(), dim=-1)
    entropy_N = -(logp_NV.exp() * logp_NV).sum(-1)
    return logp_NV.gather(-1, target_N.unsqueeze(-1)).squeeze(-1), entropy_N


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
            attn_mask=None if queries == group else _last(queries[1], group[1], value.device),
            is_causal=queries == group,
            scale=attention.scaling,
            enable_gqa=True,
        )
        mixed.append(answer.transpose(1, 2).flatten(0, 1).flatten(1))
    return torch.cat(mixed) if len(mixed) > 1 else mixed[0]


def _last(queries: int, keys: int, device: torch.device) -> Tensor:
    """The causal mask of the last of `keys` positions."""
    if device.type == "cpu":
        return torch.ones(queries, keys, dtype=torch.bool).tril_(keys - queries)
    from torch.nn.attention.bias import causal_lower_right  # imports the compiler, which takes a second

    return causal_lower_right(queries, keys)


def _grouped(stream: Tensor, group: tuple[int, int]) -> Tensor:
    """(sequences, heads, length, head size) of the rows of a group."""
    return stream.view(*group, *stream.shape[1:]).transpose(1, 2)


def _split(stream: Tensor, groups: Sequence[tuple[int, int]]) -> tuple[Tensor, ...]:
    return torch.split(stream, [count * length for count, length in groups])
