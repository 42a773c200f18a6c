"""The forward pass of one step by the model's own transformers modules, for architectures without a hand-written one.

As `model.py`: the same batches, slots and caches; only what happens between them is transformers' own, token by token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from actfirst.engines.embedded.decoding import DecodeBatch
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.model import QUERY_BLOCK, Span, wanted_rows
from actfirst.models.general import Form, causal, head, run
from actfirst.models.general import Model as Transformer
from actfirst.models.shapes import ModelShape


class GeneralWeights:
    """The parameters of a transformers model. `install` overwrites them in place."""

    def __init__(self, config: ModelShape, model: Transformer) -> None:
        self.config = config
        self.model = model

    def install(self, state: Mapping[str, Tensor]) -> None:
        """Copy a state dict in. Names and shapes are known to fit."""
        for name, parameter in self.model.named_parameters():
            parameter.data.copy_(state[name])

    def tensors(self) -> list[Tensor]:
        return [parameter.data for parameter in self.model.parameters()]


class GeneralModel:
    """A transformers model and the cache it writes to."""

    def __init__(self, weights: GeneralWeights, cache: KVCache) -> None:
        self.weights = weights
        self.cache = cache

    def forward(self, tokens_T: Tensor, decode: DecodeBatch | None, spans: list[Span]) -> Tensor:
        """Final hidden states [R, H] of all decode tokens, then of the wanted positions of each span."""
        positions = [] if decode is None else [decode.pos_N[:: self.cache.config.kv_heads]]
        positions += [torch.arange(span.start, span.stop) for span in spans]
        step = _Step(self.cache, decode, spans)
        hidden_TH = run(self.weights.model, tokens_T, torch.cat(positions), step.attend)
        wanted = wanted_rows(decode, spans)
        return hidden_TH if wanted is None else hidden_TH[wanted]

    def logits(self, hidden_RH: Tensor) -> Tensor:
        return head(self.weights.model, hidden_RH).float()


@dataclass(frozen=True, slots=True)
class _Step:
    """Where the tokens of one step belong."""

    cache: KVCache
    decode: DecodeBatch | None
    spans: list[Span]

    def attend(self, layer: int, q_HTD: Tensor, k_KTD: Tensor, v_KTD: Tensor, form: Form) -> Tensor:
        """Write keys and values to their slots; what each query attends to, [T, heads, head_dim]."""
        q_THD, k_TKD, v_TKD = (stream.transpose(0, 1) for stream in (q_HTD, k_KTD, v_KTD))
        out_THD = torch.empty_like(q_THD)
        at = 0 if self.decode is None else self.decode.tokens
        if self.decode is not None:
            out_THD[:at] = self._decoded(self.decode, layer, q_THD[:at], k_TKD[:at], v_TKD[:at], form)
        for span in self.spans:
            rows = slice(at, at + span.stop - span.start)
            at = rows.stop
            keys_KDL = self.cache.keys[layer, self.cache.rows(span.slot)]
            values_KLD = self.cache.values[layer, self.cache.rows(span.slot)]
            keys_KDL[:, :, span.start : span.stop] = k_TKD[rows].permute(1, 2, 0)
            values_KLD[:, span.start : span.stop] = v_TKD[rows].transpose(0, 1)
            for begin in range(span.start, span.stop, QUERY_BLOCK):
                end = min(span.stop, begin + QUERY_BLOCK)
                block = slice(rows.start + begin - span.start, rows.start + end - span.start)
                keys_KSD, values_KSD = keys_KDL[:, :, :end].transpose(1, 2), values_KLD[:, :end]
                out_HBD = causal(q_HTD[None, :, block], keys_KSD[None], values_KSD[None], form)[0]
                out_THD[block] = out_HBD.transpose(0, 1)
        return out_THD

    def _decoded(
        self, batch: DecodeBatch, layer: int, q_THD: Tensor, k_TKD: Tensor, v_TKD: Tensor, form: Form
    ) -> Tensor:
        cache, c = self.cache, self.cache.config
        cache.flat_keys[layer].put_(batch.key_index, k_TKD.reshape(-1, c.head_dim))
        cache.flat_values[layer].index_copy_(0, batch.value_index, v_TKD.reshape(-1, c.head_dim))
        q_NGD = q_THD.reshape(-1, c.group, c.head_dim) * form.scaling
        scores = form.capped(torch.bmm(batch.spread(q_NGD), batch.keys[layer])) + batch.mask
        if form.window is not None and form.window < batch.length:
            before = cache.places[: batch.length] <= batch.query_positions - form.window
            scores = scores.masked_fill(before, float("-inf"))
        attended = batch.gather(torch.bmm(torch.softmax(scores, -1), batch.values[layer]))
        return attended.reshape(q_THD.shape)
