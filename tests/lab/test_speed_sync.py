"""`actfirst bench sync`: what is timed, and that stale weights do not go unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from actfirst.config.load import resolve
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.errors import EngineError
from actfirst.lab.speed import driver, swaps
from actfirst.lab.speed.models import Size
from actfirst.lab.speed.sync import SyncTiming, growth, measure, to_json
from actfirst.models.shapes import shape_of

CONFIG = resolve("pocket", ["learner.threads=1"])
SIZES = (Size(1, 2), Size(2, 2))


def timing(parameters: int, seconds: float) -> SyncTiming:
    return SyncTiming("embedded", "local", parameters, seconds, 0.0, 0.0)


def test_growth_is_per_hundred_million_parameters_between_the_ends() -> None:
    assert growth([timing(10_000_000, 0.1), timing(30_000_000, 0.9), timing(60_000_000, 0.6)]) == pytest.approx(
        1.0
    )
    assert growth([timing(10_000_000, 0.1)]) == 0.0


def test_every_size_is_timed_and_checked_against_a_forward_pass(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    found = measure(CONFIG, SIZES, 1, tmp_path, lambda done, of, what: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]
    for size, line in zip(SIZES, found, strict=True):
        shape = shape_of(str(tmp_path / f"{size.heads}x{size.layers}"))
        assert shape is not None
        assert line.parameters == shape[1].parameters
        assert 0 < line.announce_seconds < line.seconds
        assert line.logprob_error < 1e-4
    assert to_json(found)[0]["seconds"] == found[0].seconds


def test_an_engine_that_keeps_old_weights_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says the new version, but computes with the first weights: only log-probs show that."""
    first: dict[str, torch.Tensor] = {}
    load = EmbeddedEngine.load_weights

    async def stale(self: EmbeddedEngine, weights: Mapping[str, torch.Tensor], version: int) -> None:
        first.update({} if first else {name: tensor.clone() for name, tensor in weights.items()})
        await load(self, first, version)

    monkeypatch.setattr(EmbeddedEngine, "load_weights", stale)
    config = resolve("pocket", ["learner.threads=1", "learner.learning_rate=0.01"])
    with pytest.raises(EngineError, match="stale weights"):
        measure(config, SIZES[:1], 2, tmp_path, lambda done, of, what: None)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_on_ray_vllms_own_process_takes_broadcasts_and_none_falls_back(tmp_path: Path) -> None:
    """It is an error there if a broadcast went another way, or if the next token is not of the new weights."""
    pytest.importorskip("vllm", reason="vLLM is not installed here", exc_type=ImportError)
    pytest.importorskip("ray")
    settings = (
        "runtime.kind=ray",
        "runtime.cpus=0.5",
        "runtime.weight_sync=collective",
        "runtime.object_store_mb=100",
        "engine.kind=vllm",
        "engine.preempt=false",
        "engine.vllm.process=own",
        "engine.vllm.enforce_eager=true",
        "engine.vllm.kv_cache_gib=0.1",
        "learner.threads=1",
    )
    (found,) = measure(resolve("pocket", settings), SIZES[1:], 2, tmp_path, lambda done, of, what: None)
    assert (found.engine, found.runtime) == ("vllm", "ray")
    assert found.logprob_error < 1e-3


def test_swaps_are_timed_while_responses_are_under_way() -> None:
    config = resolve("pocket", ["rollout.generation.response_limit=96"])
    found = swaps.measure(config, 2, 2, lambda done, of, what: None)
    assert [one.swap for one in found] == ["drain", "beside", "in_flight"]
    for one in found:
        assert len(one.held) == len(one.swapped) == len(one.ended) == 2
    assert found[0].saved(found[0]).median == 1.0


def test_what_a_request_costs_the_driver_is_also_how_many_it_can_make() -> None:
    (row,) = driver.rows([driver.DriverCost("in parcels", 0.04, 16, 900, (0.001, 0.002, 0.004))])
    assert row["driver (ms a request)"] == "2.00 (1.00-4.00)"
    assert row["engines wait (ms)"] == "0-40"
    assert row["requests / s at most"] == "500"
