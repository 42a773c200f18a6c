"""The forward pass of one step: the newest token of every decoding sequence (with the draft tokens to verify
after it) and the new tokens of every prompt, packed without padding.

The linear layers see all T tokens at once. Attention is one batched product over the slots of the decoding
sequences, and row by row of blocks for each span of prompt tokens: the scores of one span stay in the processor's
cache, those of many together do not. Logits are computed where they are wanted only. In shapes,
N = T * kv_heads counts (token, key-value head) rows and G the queries of each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from actfirst.engines.embedded.kv_cache import LENGTH_STEP, KVCache
from actfirst.engines.embedded.weights import PackedWeights

QUERY_BLOCK = 128  # rows of scores held at once for a span; also how finely the causal half is skipped


@dataclass(frozen=True, slots=True)
class Span:
    """New tokens [start, stop) of the sequence in `slot`. Logits are wanted from position `wanted` on."""

    slot: int
    start: int
    stop: int
    wanted: int


class DecodeBatch:
    """Where the decoding sequences (slots [0, B)) stand: built when the batch changes, else moved on by one."""

    def __init__(self, cache: KVCache, positions: list[int]) -> None:
        kv_heads = cache.config.kv_heads
        self.tokens = self.size = len(positions)
        self.generation = cache.generation
        rows = self.size * kv_heads
        # Rounded up, so that the views below serve many steps; what is beyond a sequence is masked.
        longest = max(positions) + 1
        self.length = min(cache.length, -(-longest // LENGTH_STEP) * LENGTH_STEP)
        self.steps_left = self.length - longest
        pos = torch.tensor(positions)
        self.pos_N = pos.repeat_interleave(kv_heads) if kv_heads > 1 else pos
        pos_N1 = self.pos_N.unsqueeze(1)
        self.value_index = cache.value_start[:rows] + self.pos_N
        self.key_index = cache.key_start[:rows] + pos_N1
        mask_NL = torch.zeros(rows, self.length, dtype=cache.keys.dtype)
        self.mask = mask_NL.masked_fill_(cache.places[: self.length] > pos_N1, float("-inf")).unsqueeze(1)
        self.keys = [layer[:rows, :, : self.length] for layer in cache.layer_keys]
        self.values = [layer[:rows, : self.length] for layer in cache.layer_values]

    @property
    def query_positions(self) -> Tensor:
        """The position of each query as `spread` lays them out, [rows, queries or 1, 1]."""
        return self.pos_N.view(-1, 1, 1)

    def advance(self) -> None:
        """Every sequence has one token more."""
        self.steps_left -= 1
        self.pos_N.add_(1)
        self.key_index.add_(1)
        self.value_index.add_(1)
        self.mask.scatter_(2, self.pos_N.view(-1, 1, 1), 0.0)

    def spread(self, rows_NGD: Tensor) -> Tensor:
        """The queries as the batched product wants them: all queries of one slot side by side."""
        return rows_NGD

    def gather(self, attended: Tensor) -> Tensor:
        """From that layout back to one row for each (token, key-value head)."""
        return attended


class DraftBatch(DecodeBatch):
    """A decode batch in which sequences have several tokens: the newest one and the draft after it.

    Each sequence has W places, W being the largest width; the places after its own tokens repeat its last one
    and are not read. The keys and values are read once for all places, which is what a decode step spends its
    time on, so a draft token costs far less than a step.
    """

    def __init__(self, cache: KVCache, positions: list[int], widths: list[int]) -> None:
        c, size, widest = cache.config, len(positions), max(widths)
        self.size, self.tokens = size, sum(widths)
        self.generation = cache.generation
        self.steps_left = 0  # the next step has other widths
        longest = max(map(sum, zip(positions, widths)))
        self.length = min(cache.length, -(-longest // LENGTH_STEP) * LENGTH_STEP)
        width_B, pos_B, head_K = np.array(widths), np.array(positions), np.arange(c.kv_heads)
        sequence_T = np.repeat(np.arange(size), width_B)
        first_B = np.cumsum(width_B) - width_B
        offset_T = np.arange(self.tokens) - first_B[sequence_T]
        offset_BW = np.minimum(np.arange(widest), width_B[:, None] - 1)
        slot_N = (sequence_T[:, None] * c.kv_heads + head_K).reshape(-1)
        token_BW = first_B[:, None] + offset_BW
        source = (token_BW[:, None, :] * c.kv_heads + head_K[:, None]).reshape(-1)
        place_N = slot_N * widest + np.repeat(offset_T, c.kv_heads)
        pos_N = np.repeat(pos_B[sequence_T] + offset_T, c.kv_heads)

        slots, self.pos_N = torch.as_tensor(slot_N), torch.as_tensor(pos_N)
        self._source, self._place_N, self._widest = torch.as_tensor(source), torch.as_tensor(place_N), widest
        self.value_index = cache.value_start[slots] + self.pos_N
        self.key_index = cache.key_start[slots] + self.pos_N.unsqueeze(1)
        rows = size * c.kv_heads
        pos_BW = torch.as_tensor(pos_B[:, None] + offset_BW)
        wide = pos_BW[:, None, :, None].expand(-1, c.kv_heads, -1, c.group)
        self._query_positions = wide.reshape(rows, -1, 1)
        self.mask = self._mask(cache, pos_BW)
        self.keys = [layer[:rows, :, : self.length] for layer in cache.layer_keys]
        self.values = [layer[:rows, : self.length] for layer in cache.layer_values]

    @property
    def query_positions(self) -> Tensor:
        return self._query_positions

    def spread(self, rows_NGD: Tensor) -> Tensor:
        _, group, head_dim = rows_NGD.shape
        return rows_NGD.index_select(0, self._source).view(-1, self._widest * group, head_dim)

    def gather(self, attended: Tensor) -> Tensor:
        group = attended.shape[1] // self._widest
        return attended.view(-1, group, attended.shape[2]).index_select(0, self._place_N)

    def _mask(self, cache: KVCache, pos_BW: Tensor) -> Tensor:
        """0 up to the position of each place and -inf beyond, for all its queries: [B * kv_heads, W * G, L]."""
        c, shape = cache.config, (*pos_BW.shape, self.length)
        mask_BWL = torch.zeros(shape, dtype=cache.keys.dtype)
        mask_BWL.masked_fill_(cache.places[: self.length] > pos_BW.unsqueeze(2), float("-inf"))
        wide = mask_BWL[:, None, :, None].expand(-1, c.kv_heads, -1, c.group, -1)
        return wide.reshape(-1, self._widest * c.group, self.length)


class Model:
    """Packed weights and the cache they write to."""

    def __init__(self, weights: PackedWeights, cache: KVCache) -> None:
        self.weights = weights
        self.cache = cache
        self._c = weights.config
        self._dtype = weights.embed_VH.dtype
        # sqrt(sum(x^2) + width * eps) = hypot(norm(x), sqrt(width * eps)): one fused reduction for an RMS norm.
        eps = self._c.norm_eps
        self._hidden_eps = torch.tensor((self._c.hidden_size * eps) ** 0.5)
        self._head_eps = torch.tensor((self._c.head_dim * eps) ** 0.5)
        self._causal = torch.full((QUERY_BLOCK, QUERY_BLOCK), float("-inf"), dtype=self._dtype).triu_(1)
        self._rope_SC = torch.empty(0, self._c.head_dim // 2, dtype=torch.complex64)

    def forward(self, tokens_T: Tensor, decode: DecodeBatch | None, spans: list[Span]) -> Tensor:
        """Final hidden states [R, H] of all decode tokens, then of the wanted positions of each span."""
        w, rope = self.weights, self._rope(decode, spans)
        wanted = wanted_rows(decode, spans)
        x = F.embedding(tokens_T, w.embed_VH)
        last = len(w.layers) - 1
        for i, layer in enumerate(w.layers):
            normed = self._norm(x, self._hidden_eps)
            qkv = layer.qkv.times(normed, layer.qkv_bias)
            attended = self._attention(i, qkv, layer.qk_scale, rope, decode, spans, wanted_only=i == last)
            if i == last and wanted is not None:  # nothing reads the other rows any more
                x, attended = x[wanted], attended[wanted]
            x = layer.out.added(attended, x)
            x = layer.down.added(layer.gated.times(self._norm(x, self._hidden_eps)), x)
        return (self._norm(x, self._hidden_eps) * w.final_norm_H).to(self._dtype)

    def logits(self, hidden_RH: Tensor) -> Tensor:
        return self.weights.head.times(hidden_RH).float()

    def _norm(self, x: Tensor, eps: Tensor) -> Tensor:
        """x / sqrt(sum(x^2) + width * eps); the weight and sqrt(width) are in the matrix that follows."""
        if self._dtype is torch.float32:
            return x / torch.hypot(torch.linalg.vector_norm(x, 2, -1, True), eps)
        norm = torch.linalg.vector_norm(x, 2, -1, True, dtype=torch.float32)
        return (x / torch.hypot(norm, eps)).to(self._dtype)

    def _rotated(self, qk_NQD: Tensor, scale_QD: Tensor | None, rope_N1C: Tensor) -> Tensor:
        """Queries and keys, normed if the model does so, turned to their positions."""
        if scale_QD is not None:
            norm = torch.linalg.vector_norm(qk_NQD, 2, -1, True, dtype=torch.float32)
            qk_NQD = (qk_NQD * scale_QD).div_(torch.hypot(norm, self._head_eps))
        elif self._dtype is not torch.float32:
            qk_NQD = qk_NQD.float()
        turned = (qk_NQD.view(torch.complex64) * rope_N1C).view(torch.float32)
        return turned if self._dtype is torch.float32 else turned.to(self._dtype)

    def _attention(
        self,
        index: int,
        qkv_TP: Tensor,
        qk_scale: Tensor | None,
        rope_N1C: Tensor,
        decode: DecodeBatch | None,
        spans: list[Span],
        *,
        wanted_only: bool,
    ) -> Tensor:
        c = self._c
        qkv = qkv_TP.view(-1, c.group + 2, c.head_dim)
        v_ND = qkv[:, -1]
        qk_NQD = self._rotated(qkv[:, :-1], qk_scale, rope_N1C)
        q_NGD, k_ND = qk_NQD[:, :-1], qk_NQD[:, -1]
        if decode is not None and not spans:
            return self._decode(index, q_NGD, k_ND, v_ND, decode).view(-1, c.heads * c.head_dim)
        out_TA = qkv_TP.new_empty(qkv_TP.shape[0], c.heads * c.head_dim)
        at = 0
        if decode is not None:
            at = decode.tokens * c.kv_heads
            decoded = self._decode(index, q_NGD[:at], k_ND[:at], v_ND[:at], decode)
            out_TA[: decode.tokens] = decoded.view(decode.tokens, -1)
        for span in spans:
            rows = slice(at, at + (span.stop - span.start) * c.kv_heads)
            at = rows.stop
            target = out_TA[rows.start // c.kv_heads : rows.stop // c.kv_heads]
            self._attend_span(index, q_NGD[rows], k_ND[rows], v_ND[rows], span, target, wanted_only=wanted_only)
        return out_TA

    def _decode(self, index: int, q_NGD: Tensor, k_ND: Tensor, v_ND: Tensor, batch: DecodeBatch) -> Tensor:
        self.cache.flat_keys[index].put_(batch.key_index, k_ND)
        self.cache.flat_values[index].index_copy_(0, batch.value_index, v_ND)
        scores = torch.baddbmm(batch.mask, batch.spread(q_NGD), batch.keys[index])
        return batch.gather(torch.bmm(torch.softmax(scores, -1), batch.values[index]))

    def _attend_span(
        self,
        index: int,
        q_NGD: Tensor,
        k_ND: Tensor,
        v_ND: Tensor,
        span: Span,
        out_SA: Tensor,
        *,
        wanted_only: bool,
    ) -> None:
        """Write a span's keys and values to its slot, and what its queries attend to into `out_SA`."""
        c, rows = self._c, self.cache.rows(span.slot)
        keys_KDL, values_KLD = self.cache.keys[index, rows], self.cache.values[index, rows]
        keys_KDL[:, :, span.start : span.stop] = k_ND.view(-1, c.kv_heads, c.head_dim).permute(1, 2, 0)
        values_KLD[:, span.start : span.stop] = v_ND.view(-1, c.kv_heads, c.head_dim).transpose(0, 1)
        q_SKGD = q_NGD.view(-1, c.kv_heads, c.group, c.head_dim)
        first = max(span.start, span.wanted) if wanted_only else span.start
        for begin in range(first, span.stop, QUERY_BLOCK):
            end = min(span.stop, begin + QUERY_BLOCK)
            block, size = slice(begin - span.start, end - span.start), end - begin
            q = q_SKGD[block].permute(1, 2, 0, 3).reshape(c.kv_heads, c.group * size, c.head_dim)
            scores = torch.bmm(q, keys_KDL[:, :, :end])
            by_query = scores.view(c.kv_heads, c.group, size, end)
            by_query[..., begin:].add_(self._causal[:size, :size])
            attended = torch.bmm(torch.softmax(scores, -1), values_KLD[:, :end])
            attended = attended.view(c.kv_heads, c.group, size, c.head_dim).permute(2, 0, 1, 3)
            out_SA[block] = attended.reshape(size, -1)

    def _rope(self, decode: DecodeBatch | None, spans: list[Span]) -> Tensor:
        """The rotation of every row as a complex number, [N, 1, head_dim / 2]."""
        if self._rope_SC.shape[0] < self.cache.length:
            self._rope_SC = self._rope_table(self.cache.length)
        parts = [] if decode is None else [self._rope_SC.index_select(0, decode.pos_N)]
        for span in spans:
            part = self._rope_SC[span.start : span.stop]
            parts.append(part.repeat_interleave(self._c.kv_heads, 0) if self._c.kv_heads > 1 else part)
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).unsqueeze(1)

    def _rope_table(self, length: int) -> Tensor:
        # In float32 throughout, as transformers does: angles at far positions then agree with its to the bit.
        exponent = torch.arange(0, self._c.head_dim, 2, dtype=torch.float32) / self._c.head_dim
        inverse = 1.0 / (self._c.rope_theta**exponent)
        angles_SC = torch.arange(length, dtype=torch.float32)[:, None] * inverse
        return torch.polar(torch.ones_like(angles_SC), angles_SC)


def wanted_rows(decode: DecodeBatch | None, spans: list[Span]) -> Tensor | None:
    """Rows of the step whose hidden states are wanted; None for all of them."""
    if not spans:
        return None
    rows = list(range(decode.tokens)) if decode is not None else []
    at = len(rows)
    for span in spans:
        rows.extend(range(at + max(0, span.wanted - span.start), at + span.stop - span.start))
        at += span.stop - span.start
    return torch.tensor(rows, dtype=torch.int64)
