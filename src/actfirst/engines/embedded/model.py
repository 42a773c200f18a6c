"""The forward pass of one step: the newest token of every decoding sequence (with the draft tokens to verify
after it) and the new tokens of every prompt, packed without padding.

The linear layers see all T tokens at once. Attention is batched over the slots of the decoding sequences
(`decoding.py`), and row by row of blocks for each span of prompt tokens: the scores of one span stay in the
processor's cache, those of many together do not. Logits are computed where they are wanted only. In shapes,
N = T * kv_heads counts (token, key-value head) rows and G the queries of each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from actfirst.engines.embedded.decoding import DecodeBatch
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.weights import PackedWeights

QUERY_BLOCK = 128  # rows of scores held at once for a span; also how finely the causal half is skipped


@dataclass(frozen=True, slots=True)
class Span:
    """New tokens [start, stop) of the sequence in `slot`. Logits are wanted from position `wanted` on."""

    slot: int
    start: int
    stop: int
    wanted: int


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
        return batch.attend(index, q_NGD)

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
