"""From samples to micro-batches of at most a token budget, laid out so that no token is computed twice.

Three ideas, none of which changes the result:
- Token-wise work (projections, MLP, norms) runs on one row per token, without padding. A prefix that several
  sequences of a micro-batch share is stored once: equal prefixes have equal hidden states.
- Attention alone needs sequences. Rows are gathered into groups of similar length, padded on the right; under
  causal attention padding there is never seen, so no mask is needed and the fast kernel applies. One packed row
  with a block-diagonal mask would compute the whole square of the micro-batch on CPU instead.
- Nothing after the last supervised token is computed, and a response without one is not computed at all.

Shape letters: U rows (distinct tokens), P places (padded positions of all groups), N supervised tokens.
"""

# Tensor names carry their shape, also as fields.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actfirst.learning.loss import LossConfig, response_share
from actfirst.records import TurnSample

Array: TypeAlias = NDArray[Any]

# A sequence shorter than this part of its group's longest starts a new group: bounds the padding of attention.
_FULL_ENOUGH = 0.8


@dataclass(frozen=True, slots=True)
class Layout:
    """A micro-batch as the forward pass wants it. `groups` are the (sequences, length) of the attention calls.

    `row_P` is the row at each place (0 at padding) and `place_U` one place of each row. Supervised token n is
    predicted at place `place_N`, which is row `row_N`; `query_P` is the n at each place (0 elsewhere). `anchor_N` is 0
    for samples without anchor log-probs.
    """

    groups: tuple[tuple[int, int], ...]
    token_U: Tensor
    position_U: Tensor
    row_P: Tensor
    place_U: Tensor
    row_N: Tensor
    place_N: Tensor
    query_P: Tensor
    target_N: Tensor
    behaviour_N: Tensor
    advantage_N: Tensor
    anchor_N: Tensor
    share_N: Tensor


def micro_batches(samples: Sequence[TurnSample], token_budget: int) -> list[list[TurnSample]]:
    """Samples with supervised tokens, by falling length, cut wherever the budget is reached.

    A sample that is longer than the budget gets a micro-batch of its own.
    """
    batches: list[list[TurnSample]] = []
    room = 0
    for sample in sorted((s for s in samples if any(s.mask)), key=input_length, reverse=True):
        length = input_length(sample)
        if not batches or length > room:
            batches.append([])
            room = token_budget
        batches[-1].append(sample)
        room -= length
    return batches


def lay_out(
    samples: Sequence[TurnSample], responses: int, loss: LossConfig, device: torch.device | str = "cpu"
) -> Layout:
    """The layout of one micro-batch; `responses` is |B| of the whole optimisation batch."""
    inputs = [sample.prompt_ids + sample.token_ids[: _last_supervised(sample)] for sample in samples]
    rows, token_U, position_U = _shared_rows(inputs)
    groups, starts, places = _groups([len(ids) for ids in inputs])

    row_P = np.zeros(places, dtype=np.int64)
    place_U = np.zeros(len(token_U), dtype=np.int64)
    for start, row in zip(starts, rows):
        row_P[start : start + len(row)] = row
        place_U[row] = np.arange(start, start + len(row))

    kept = [np.flatnonzero(sample.mask) for sample in samples]
    place_N = np.concatenate([start + len(s.prompt_ids) - 1 + j for start, s, j in zip(starts, samples, kept)])
    query_P = np.zeros(places, dtype=np.int64)
    query_P[place_N] = np.arange(len(place_N))
    shares = [response_share(len(j), s.weight, responses, loss) for s, j in zip(samples, kept)]

    def indices(values: Array) -> Tensor:
        return torch.from_numpy(values).to(device)

    def stream(values: Sequence[Sequence[float]]) -> Tensor:
        picked = np.concatenate([np.asarray(row)[j] for row, j in zip(values, kept)])
        return torch.from_numpy(picked.astype(np.float32)).to(device)

    return Layout(
        groups=groups,
        token_U=indices(token_U),
        position_U=indices(position_U),
        row_P=indices(row_P),
        place_U=indices(place_U),
        row_N=indices(row_P[place_N]),
        place_N=indices(place_N),
        query_P=indices(query_P),
        target_N=indices(np.concatenate([np.asarray(s.token_ids)[j] for s, j in zip(samples, kept)])),
        behaviour_N=stream([s.behaviour_logprobs for s in samples]),
        advantage_N=stream([s.advantages for s in samples]),
        anchor_N=stream([s.anchor_logprobs or (0.0,) * len(s.mask) for s in samples]),
        share_N=indices(np.repeat(shares, [len(j) for j in kept]).astype(np.float32)),
    )


def _last_supervised(sample: TurnSample) -> int:
    return max(index for index, kept in enumerate(sample.mask) if kept)


def input_length(sample: TurnSample) -> int:
    """How many tokens of a sample are computed; it needs at least one supervised token."""
    return len(sample.prompt_ids) + _last_supervised(sample)


def _shared_rows(inputs: Sequence[tuple[int, ...]]) -> tuple[list[Array], Array, Array]:
    """Rows of each sequence, and the token and position of each row.

    In lexicographic order the longest prefix that a sequence shares with any earlier one is shared with the one
    just before it, so comparing neighbours finds every shared prefix.
    """
    order = sorted(range(len(inputs)), key=inputs.__getitem__)
    arrays = {index: np.asarray(inputs[index], dtype=np.int64) for index in order}
    rows = {order[0]: np.arange(len(inputs[order[0]]))}
    tokens, positions, count = [arrays[order[0]]], [rows[order[0]]], len(inputs[order[0]])
    for before, index in pairwise(order):
        mine = arrays[index]
        shared = _common_prefix(arrays[before], mine)
        new = len(mine) - shared
        rows[index] = np.concatenate((rows[before][:shared], np.arange(count, count + new)))
        tokens.append(mine[shared:])
        positions.append(np.arange(shared, len(mine)))
        count += new
    return [rows[index] for index in range(len(inputs))], np.concatenate(tokens), np.concatenate(positions)


def _common_prefix(left: Array, right: Array) -> int:
    length = min(len(left), len(right))
    different = np.flatnonzero(left[:length] != right[:length])
    return int(different[0]) if len(different) else length


def _groups(lengths: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], list[int], int]:
    """Attention groups, the first place of each sequence, and the number of places."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    starts = [0] * len(lengths)
    groups: list[tuple[int, int]] = []
    places = 0
    for index in order:
        if not groups or lengths[index] < _FULL_ENOUGH * groups[-1][1]:
            groups.append((0, lengths[index]))
        count, longest = groups[-1]
        groups[-1] = (count + 1, longest)
        starts[index] = places
        places += longest
    return tuple(groups), starts, places
