"""Weights that do not arrive end a run, with the name of the engine; those that arrive cost a few tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from actfirst.engines.stepped import SteppedEngine
from actfirst.errors import EngineError
from actfirst.records import TurnSample, UpdateStats
from actfirst.runs.run import open_run
from actfirst.training.arrival import Arrival
from actfirst.training.local import LocalLearner
from actfirst.training.open import train
from tests.learning.making import make_samples
from tests.support.tiny_run import tiny_config

SMALL = (
    "rollout.tasks_per_batch=2",
    "learner.batch_size=3",
    "environment.turn_limit=3",
    "engine.dtype=float32",
    "learner.precision=float32",
)


class FakeLearner:
    """Says that every token has this log-prob, and counts how many it was asked for."""

    def __init__(self, logprob: float) -> None:
        self.logprob = logprob
        self.tokens = 0

    async def measure(self, samples: Sequence[TurnSample]) -> float:
        self.tokens += sum(len(sample.prompt_ids) + len(sample.token_ids) for sample in samples)
        return -self.logprob


def arrival(folder: Path, learner: FakeLearner, engines: Mapping[str, float], *more: str) -> Arrival:
    async def scores(prompt: Sequence[int], tokens: Sequence[int]) -> dict[str, tuple[float, ...]]:
        return {name: (value,) * len(tokens) for name, value in engines.items()}

    return Arrival(tiny_config(folder, *SMALL, *more), learner, scores)


SAMPLES = [replace(sample, version=4) for sample in make_samples(4)]


def test_the_engine_that_lacks_the_weights_is_named(tmp_path: Path) -> None:
    async def sync(engines: dict[str, float]) -> None:
        proof = arrival(tmp_path, FakeLearner(-1.5), engines)
        await proof.begin(SAMPLES, 5)
        await proof.settle()
        assert proof.gap == pytest.approx(0.0002)

    asyncio.run(sync({"engine 1 of 2": -1.5, "engine 2 of 2": -1.5002}))
    with pytest.raises(
        EngineError, match=r"engine 2 of 2 does not have the weights of update 5: .* -1\.40000 there"
    ):
        asyncio.run(sync({"engine 1 of 2": -1.5, "engine 2 of 2": -1.4}))
    with pytest.raises(EngineError, match="engine 1"):
        asyncio.run(sync({"engine 1": float("nan")}))


def test_a_probe_is_a_few_tokens_and_can_be_rarer_or_off(tmp_path: Path) -> None:
    async def asked(every: int) -> int:
        learner = FakeLearner(-1.0)
        proof = arrival(tmp_path, learner, {"one": -1.0}, f"engine.weight_check_every={every}")
        for version in range(1, 13):
            await proof.begin(SAMPLES, version)
            await proof.settle()
        return learner.tokens

    each = asyncio.run(asked(1))
    assert 12 * 2 <= each <= 12 * 64
    assert asyncio.run(asked(4)) == each // 4
    assert asyncio.run(asked(0)) == 0


@pytest.mark.parametrize(
    ("ratios", "lag", "stops"),
    [((0.999, 1.001, 1.0), 0, False), ((0.7, 1.4, 1.0), 0, True), ((0.7, 1.4, 1.0), 1, False)],
)
def test_ratios_of_samples_at_lag_0_are_watched(
    tmp_path: Path, ratios: tuple[float, float, float], lag: int, stops: bool
) -> None:
    extra = dict(zip(("ratio_min", "ratio_max", "ratio_mean"), ratios, strict=True))
    stats = UpdateStats(0.0, 0.0, 1.0, 0.0, 1, 1, 1, 1.0, extra)
    proof = arrival(tmp_path, FakeLearner(0.0), {})
    if stops:
        with pytest.raises(EngineError, match=r"not sampled from the learner's weights .* 0\.7000 to 1\.4000"):
            proof.check_samples(SAMPLES, stats, 4 + lag)
    else:
        proof.check_samples(SAMPLES, stats, 4 + lag)


def test_a_run_whose_engine_keeps_its_first_weights_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SteppedEngine.load_weights
    first: dict[str, torch.Tensor] = {}

    async def stale(self: SteppedEngine[object], weights: Mapping[str, torch.Tensor], version: int) -> None:
        first.update({} if first else {name: value.clone() for name, value in weights.items()})
        await real(self, first, version)

    config = tiny_config(tmp_path, *SMALL, "run.updates=4", "learner.learning_rate=1e-2")
    summary = train(config, tmp_path / "whole")
    gaps = [line.extra["weights_gap"] for line in open_run(tmp_path / "whole").updates if line.update > 1]
    assert summary.updates == 4
    assert max(gaps) < 1e-4  # type: ignore[type-var]

    monkeypatch.setattr(SteppedEngine, "load_weights", stale)
    with pytest.raises(EngineError, match="the student's engine does not have the weights of update 2"):
        train(config, tmp_path / "stale")


def test_the_learner_is_asked_before_it_updates_again(tmp_path: Path) -> None:
    """Else the probe would be computed with the weights of the next update."""
    config = tiny_config(tmp_path, *SMALL, "learner.learning_rate=1e-2")

    async def gaps() -> tuple[float, float]:
        learner = LocalLearner(tmp_path / "student", config.learner, tmp_path / "checkpoints")

        async def nothing(prompt: Sequence[int], tokens: Sequence[int]) -> dict[str, tuple[float, ...]]:
            return {}

        asked: list[float] = []
        measure = learner.measure

        async def remembered(samples: Sequence[TurnSample]) -> float:
            asked.append(await measure(samples))
            return asked[-1]

        learner.measure = remembered  # type: ignore[method-assign]
        proof = Arrival(config, learner, nothing)
        for _ in range(2):
            await proof.begin(SAMPLES, 1)
            await learner.update(SAMPLES)
            await proof.settle()
        await learner.close()
        return asked[0], asked[1]

    before, after = asyncio.run(gaps())
    assert before != after
    again, _ = asyncio.run(gaps())
    assert again == before
