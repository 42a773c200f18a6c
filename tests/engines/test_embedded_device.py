"""The embedded engine on another device than the CPU, without one: meta tensors have a device and no contents.

An operation over tensors of two devices fails here as it would on a GPU.
"""

from __future__ import annotations

import pytest
import torch

from actfirst.engines.base import Sampling
from actfirst.engines.embedded.decoding import DecodeBatch, DraftBatch
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.model import Model, Span
from actfirst.engines.embedded.prefix_cache import BLOCK, PrefixCache
from actfirst.engines.embedded.sampling import Sampler, gather_logprobs
from actfirst.engines.embedded.weights import PackedWeights
from actfirst.models.shapes import ModelShape

SHAPE = ModelShape(64, 32, 48, 2, 4, 2, 8, tied_embeddings=True, max_positions=256)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_tensor_of_a_step_is_on_the_device(dtype: torch.dtype) -> None:
    with torch.inference_mode(), torch.device("meta"):
        given = {name: torch.ones(shape, device="cpu") for name, shape in SHAPE.tensors().items()}
        cache = KVCache(SHAPE, dtype, max_slots=4, max_length=256)
        weights = PackedWeights(SHAPE, dtype)
        weights.install(given)
        model, prefix = Model(weights, cache), PrefixCache(cache, 4 * BLOCK)
        cache.reserve(3, 2 * BLOCK)
        prefix.store([b"a"], 0, 0)
        prefix.load([b"a"], 2)
        decode, tokens = DecodeBatch(cache, [3, 5]), torch.as_tensor([1, 2, 3, 4])
        model.forward(tokens[:2], decode, [])
        decode.advance()
        hidden = model.forward(tokens, decode, [Span(2, 0, 2, 1)])
        drafted = model.forward(tokens, DraftBatch(cache, [3, 5], [3, 1]), [])
        settings = [Sampling(1), Sampling(1, temperature=0.0), Sampling(1, top_p=0.5, top_k=3)]
        drawn, logprobs = Sampler(settings).draw(model.logits(hidden), [0.1, 0.2, 0.3])
        scored, _, _ = gather_logprobs(model.logits(drafted), tokens)
    for tensor in (hidden, drafted, drawn, logprobs, scored, cache.keys, *weights.tensors(), *prefix.tensors()):
        assert tensor.device.type == "meta"
