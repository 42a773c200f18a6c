"""From samples to micro-batches of at most a token budget, laid out so that no token is computed twice.

None of these ideas changes the result:
- Samples of one episode, and of one task's start, begin alike. They are put into the same micro-batch.
- Token-wise work (projections, MLP, norms) runs on one row per token, without padding. A prefix that several
  sequences of a micro-batch share is stored once: equal prefixes have equal hidden states. So the sequences are a tree
  of prefixes, and every node is computed once, with the gradient of all that hangs on it.
- Attention alone needs sequences. Keys and values are gathered into groups of sequences of similar shape, padded on
  the right. Queries are asked from where the first sequence of the group leaves what it shares: what is before was
  asked by another sequence. Causal attention whose last query sees the last key needs no mask, padding on the right is
  never seen, and the fast kernel applies.
- The last layer asks at supervised positions alone: from the first of them in the group.
- Nothing after the last supervised token is computed, and a response without one is not computed at all.

Shape letters: U rows (distinct tokens), P places of keys (padded positions of all groups), Q places of queries, N
supervised tokens.
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

# A group takes a sequence in as long as its attention stays below this many times what its sequences need alone.
_ROOMY = 1.25


@dataclass(frozen=True, slots=True)
class Queries:
    """Who asks in the attention calls: every sequence of group g from position `starts[g]` on.

    `item_Q` is what stands at each place (0 where nobody asks), and `place` the place of each item.
    """

    starts: tuple[int, ...]
    item_Q: Tensor
    place: Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """A micro-batch as the forward pass wants it. `groups` are the (sequences, length) of the attention calls.

    `row_P` is the row at each place of a key (0 at padding). `rows` are the queries of all layers but the last, one for
    each row; `supervised` those of the last one, one for each supervised token n, which is predicted at row `row_N`.
    `anchor_N` is 0 for samples without anchor log-probs.
    """

    groups: tuple[tuple[int, int], ...]
    token_U: Tensor
    position_U: Tensor
    row_P: Tensor
    rows: Queries
    supervised: Queries
    row_N: Tensor
    target_N: Tensor
    behaviour_N: Tensor
    advantage_N: Tensor
    anchor_N: Tensor
    share_N: Tensor


def micro_batches(samples: Sequence[TurnSample], token_budget: int) -> list[list[TurnSample]]:
    """Samples with supervised tokens, those that begin alike beside each other, cut wherever the budget is reached.

    The budget counts a shared prefix in every sample. A sample that is longer than it gets a micro-batch of its own.
    """
    batches: list[list[TurnSample]] = []
    room = 0
    for sample in sorted((s for s in samples if any(s.mask)), key=lambda s: s.prompt_ids):
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
    rows, shared, token_U, position_U = _shared_rows(inputs)
    groups = _groups([len(ids) for ids in inputs], shared)
    kept = [np.flatnonzero(sample.mask) for sample in samples]
    asked = [len(sample.prompt_ids) - 1 + j for sample, j in zip(samples, kept)]
    ends = np.cumsum([len(j) for j in kept])
    shares = [response_share(len(j), s.weight, responses, loss) for s, j in zip(samples, kept)]

    on_gpu = torch.device(device).type == "cuda"

    def indices(values: Array) -> Tensor:
        tensor = torch.from_numpy(values)
        # From pinned memory the copy goes on beside the processor, which lays out the rest meanwhile.
        return tensor.pin_memory().to(device, non_blocking=True) if on_gpu else tensor.to(device)

    def stream(values: Sequence[Sequence[float]]) -> Tensor:
        picked = np.concatenate([np.asarray(row)[j] for row, j in zip(values, kept)])
        return indices(picked.astype(np.float32))

    def queries(positions: Sequence[Array], items: Sequence[Array], count: int) -> Queries:
        """Queries of each sequence at its `positions`, for its `items` of `count` in all."""
        starts, item_Q, place, first = [], [], np.zeros(count, dtype=np.int64), 0
        for members, length in groups:
            start = min((int(positions[i][0]) for i in members if len(positions[i])), default=length - 1)
            asking = np.zeros((len(members), length - start), dtype=np.int64)
            for number, i in enumerate(members):
                asking[number, positions[i] - start] = items[i]
                place[items[i]] = first + number * (length - start) + positions[i] - start
            starts.append(start)
            item_Q.append(asking.ravel())
            first += asking.size
        return Queries(tuple(starts), indices(np.concatenate(item_Q)), indices(place))

    own = [np.arange(start, len(row)) for start, row in zip(shared, rows)]
    padded = [np.zeros((len(members), length), dtype=np.int64) for members, length in groups]
    for (members, _), keys in zip(groups, padded):
        for number, i in enumerate(members):
            keys[number, : len(rows[i])] = rows[i]
    return Layout(
        groups=tuple((len(members), length) for members, length in groups),
        token_U=indices(token_U),
        position_U=indices(position_U),
        row_P=indices(np.concatenate([keys.ravel() for keys in padded])),
        rows=queries(own, [row[mine] for row, mine in zip(rows, own)], len(token_U)),
        supervised=queries(asked, [np.arange(e - len(j), e) for e, j in zip(ends, kept)], int(ends[-1])),
        row_N=indices(np.concatenate([row[positions] for row, positions in zip(rows, asked)])),
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


def _shared_rows(inputs: Sequence[tuple[int, ...]]) -> tuple[list[Array], list[int], Array, Array]:
    """Rows of each sequence, how many of them it shares with an earlier one, and the token and position of each row.

    In lexicographic order the longest prefix that a sequence shares with any earlier one is shared with the one
    just before it, so comparing neighbours finds every shared prefix.
    """
    order = sorted(range(len(inputs)), key=inputs.__getitem__)
    arrays = {index: np.asarray(inputs[index], dtype=np.int64) for index in order}
    rows, known = {order[0]: np.arange(len(inputs[order[0]]))}, {order[0]: 0}
    tokens, positions, count = [arrays[order[0]]], [rows[order[0]]], len(inputs[order[0]])
    for before, index in pairwise(order):
        mine = arrays[index]
        shared = _common_prefix(arrays[before], mine)
        known[index], new = shared, len(mine) - shared
        rows[index] = np.concatenate((rows[before][:shared], np.arange(count, count + new)))
        tokens.append(mine[shared:])
        positions.append(np.arange(shared, len(mine)))
        count += new
    numbers = range(len(inputs))
    return (
        [rows[i] for i in numbers],
        [known[i] for i in numbers],
        np.concatenate(tokens),
        np.concatenate(positions),
    )


def _common_prefix(left: Array, right: Array) -> int:
    length = min(len(left), len(right))
    different = np.flatnonzero(left[:length] != right[:length])
    return int(different[0]) if len(different) else length


def _groups(lengths: Sequence[int], shared: Sequence[int]) -> list[tuple[list[int], int]]:
    """Attention groups: their sequences, and the length of the longest.

    Each sequence joins the group that it makes least roomier, or begins a new one.
    """
    groups: list[tuple[list[int], int]] = []
    alone = [(length - start) * length for length, start in zip(lengths, shared)]

    def room(members: Sequence[int], length: int) -> float:
        """Attention of the group by what its sequences need alone."""
        asked = length - min(shared[i] for i in members)
        return len(members) * asked * length / max(1, sum(alone[i] for i in members))

    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        rooms = [(room([*members, index], length), n) for n, (members, length) in enumerate(groups)]
        least, best = min(rooms, default=(_ROOMY, -1))
        if least < _ROOMY:
            groups[best][0].append(index)
        else:
            groups.append(([index], lengths[index]))
    return groups
