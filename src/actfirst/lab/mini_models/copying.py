"""Random weights that can copy before they have learned anything.

A small model that starts from nothing learns last, and suddenly, to find in its prompt what it has to write next. The
two attention heads that do it in trained models ("induction heads") can be written down, so a new model begins with
them and training goes on from there:

    layer 0, head 0     looks at the token before, and notes what it was
    layer 1, head 0     looks for a place whose note is the token that is read now, and proposes what stands there

The hidden state is divided for that: the first part holds what a token is, the second the note, the last number is the
same for all tokens. All other weights stay random, and nothing is kept from changing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LEAST_LAYERS = 2
_SPREAD = 0.48  # of the embeddings; training moves them slowly, beside what they are
_LOUDNESS = 0.25  # of the last state: a proposal stands out among thousands of tokens
_FAINT = 0.1  # what is left of random weights where something is written down
_FIRM = 8.0  # of queries and keys: their size does not matter, but a large one is changed more slowly
_SHARPNESS = 1.41  # of queries and of keys: enough to find, and soft enough to learn what else to look for
_NOTE, _PROPOSAL = 4.0, 12.0  # how much is added to the state
_NEAR = (3.0, 2.0, 1.0, 1.0, 1.0, 1.0)  # weights of the fastest rotations, which tell neighbours apart
_FAR = 1000  # tokens over which what is looked for may hardly rotate ...
_TURNED = 0.5  # ... at most so much


@torch.no_grad()
def write_copying(model: PreTrainedModel) -> None:
    """Write the two heads into a new Qwen3 model with tied embeddings and one key-value head."""
    config: Any = model.config
    if config.num_hidden_layers < LEAST_LAYERS:
        raise ValueError(f"copying needs {LEAST_LAYERS} layers, not {config.num_hidden_layers}")
    width, dim = config.hidden_size, config.head_dim
    rotations = config.rope_parameters["rope_theta"] ** (-2 * torch.arange(dim // 2) / dim)
    token, same = slice(0, width * 5 // 8), width - 1
    note = slice(token.stop, min(same, token.stop + dim))
    body: Any = model.get_submodule("model")
    _spread(body.embed_tokens.weight, token, same)
    body.norm.weight.fill_(_LOUDNESS)
    noted = _orthogonal(note.stop - note.start, token.stop)
    before, finder = body.layers[0].self_attn, body.layers[1].self_attn
    for attention in (before, finder):
        _make_room(attention, dim)
    _look_at_the_token_before(before, rotations, same)
    before.v_proj.weight[: len(noted), token] += noted
    before.o_proj.weight[note, : len(noted)] += _NOTE * torch.eye(len(noted))
    _look_for_the_note(finder, rotations, noted, token, note)
    copied = _orthogonal(dim, token.stop)
    finder.v_proj.weight[: len(copied), token] += copied
    finder.o_proj.weight[token, : len(copied)] += _PROPOSAL * copied.T
    for attention in (before, finder):
        attention.q_proj.weight[:dim].mul_(_FIRM)
        attention.k_proj.weight.mul_(_FIRM)


def _spread(vectors: Tensor, token: slice, same: int) -> None:
    vectors.mul_(_SPREAD / vectors.std())
    vectors[:, token.stop :] *= _FAINT
    vectors[:, same] = _SPREAD


def _make_room(attention: Any, dim: int) -> None:
    for weight in (
        attention.q_proj.weight[:dim],
        attention.k_proj.weight,
        attention.v_proj.weight,
        attention.o_proj.weight,
    ):
        weight.mul_(_FAINT)
    attention.q_norm.weight.fill_(_SHARPNESS)
    attention.k_norm.weight.fill_(_SHARPNESS)


def _look_at_the_token_before(attention: Any, rotations: Tensor, same: int) -> None:
    """All keys are alike, and the query is a key turned back by one place."""
    half = len(rotations)
    for pair, (share, angle) in enumerate(zip(_NEAR, rotations.tolist())):
        size = 2 * math.sqrt(share)
        attention.k_proj.weight[pair, same] += size
        attention.q_proj.weight[pair, same] += size * math.cos(angle)
        attention.q_proj.weight[pair + half, same] -= size * math.sin(angle)


def _look_for_the_note(attention: Any, rotations: Tensor, noted: Tensor, token: slice, note: slice) -> None:
    """Keys are notes and queries are tokens, in what hardly rotates."""
    slow = torch.nonzero(rotations * _FAR < _TURNED).flatten()
    slow = torch.cat((slow, slow + len(rotations)))
    compared = _orthogonal(len(slow), len(noted))
    attention.k_proj.weight[slow, note] += compared
    attention.q_proj.weight[slow, token] += compared @ noted


def _orthogonal(rows: int, columns: int) -> Tensor:
    """Random rows (or columns, if there are fewer) of length 1 at right angles."""
    square: Tensor = torch.linalg.qr(torch.randn(max(rows, columns), max(rows, columns)))[0]
    return square[:rows, :columns]
