"""Large matrices in blocks compute what plain ones do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from actfirst.engines.embedded import matrices
from actfirst.engines.embedded.decoding import DecodeBatch
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.matrices import Blocked, BlockedGated, Plain, PlainGated, gated, matrix
from actfirst.engines.embedded.model import Model, Span
from actfirst.engines.embedded.weights import PackedWeights
from actfirst.models.shapes import ModelShape

NEEDS_ONEDNN = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")


@NEEDS_ONEDNN
@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_products_sums_and_gates(rows: int) -> None:
    torch.manual_seed(0)
    x, to, weight, up, bias = (
        torch.randn(*size) for size in ((rows, 640), (rows, 512), (640, 512), (640, 512), (512,))
    )
    made, pair = matrix(640, 512, torch.float32), gated(640, 512, torch.float32)
    assert isinstance(made, Blocked)
    assert isinstance(pair, BlockedGated)
    made.install(weight)
    pair.install(weight, up)
    close = {"rtol": 1e-5, "atol": 2e-4}
    torch.testing.assert_close(made.times(x), x @ weight, **close)
    torch.testing.assert_close(made.times(x, bias), x @ weight + bias, **close)
    torch.testing.assert_close(made.added(x, to.clone()), to + x @ weight, **close)
    torch.testing.assert_close(pair.times(x), functional.silu(x @ weight) * (x @ up), rtol=1e-4, atol=1e-2)
    assert sum(tensor.nbytes for tensor in (*made.tensors(), *pair.tensors())) == 3 * weight.nbytes
    made.install(up)
    torch.testing.assert_close(made.times(x), x @ up, **close)


@pytest.mark.parametrize(("size", "dtype"), [(64, torch.float32), (640, torch.bfloat16)])
def test_small_ones_and_other_types_stay_plain(size: int, dtype: torch.dtype) -> None:
    assert isinstance(matrix(size, 512, dtype), Plain)
    assert isinstance(gated(size, 512, dtype), PlainGated)
    with torch.device("meta"):
        assert isinstance(matrix(4096, 4096, torch.float32), Plain)


@NEEDS_ONEDNN
@torch.inference_mode()
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_computes_the_same_in_both_forms(monkeypatch: pytest.MonkeyPatch, tied: bool) -> None:
    shape = ModelShape(96, 64, 128, 2, 4, 2, 16, tied_embeddings=tied, qkv_bias=not tied, max_positions=64)
    torch.manual_seed(1)
    state = {name: torch.randn(size) * 0.3 for name, size in shape.tensors().items()}

    def logits() -> Tensor:
        cache = KVCache(shape, torch.float32, max_slots=2, max_length=64)
        weights = PackedWeights(shape, torch.float32)
        weights.install(state)
        model = Model(weights, cache)
        cache.reserve(2, 32)
        first = model.forward(torch.arange(20), None, [Span(0, 0, 12, 0), Span(1, 0, 8, 7)])
        then = model.forward(torch.tensor([3, 4]), DecodeBatch(cache, [12, 8]), [])
        return model.logits(torch.cat((first, then)))

    plain = logits()
    monkeypatch.setattr(matrices, "_LARGE", 1)
    torch.testing.assert_close(logits(), plain, rtol=1e-4, atol=1e-3)
