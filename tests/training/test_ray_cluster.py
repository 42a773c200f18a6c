"""Whole runs on a real Ray cluster of two logical nodes: parts are killed in the middle, and it is only delayed.

Each run starts a dozen processes that import torch, so these tests are slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
import torch
from ray.cluster_utils import Cluster
from safetensors.torch import load_file

from actfirst.config.load import resolve
from actfirst.methods import table
from actfirst.runs.lines import SftLine
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import read_metrics
from actfirst.training.open import OpenedRun, open_training
from actfirst.training.open import train as train_locally
from actfirst.training.ray.cluster import Demands, actors, cluster
from actfirst.training.sft import SftWatcher, fine_tune
from actfirst.training.watch import Watcher
from tests.support.even_tokens import EVEN, GROUPS, NAME
from tests.support.tiny_run import tiny_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STORE = 200 * 1024**2
SETTINGS = (
    "runtime.kind=ray",
    "runtime.cpus=0.5",
    "rollout.overlap=true",
    "environment.turn_limit=6",
    "checkpoint.every=1",
)
Disturb = Callable[[OpenedRun], Awaitable[None]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def two_nodes() -> Iterator[Cluster]:
    """CPUs are only counted: the first node alone can hold every part of a run."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 6, "object_store_memory": STORE, "include_dashboard": False},
    )
    cluster.add_node(num_cpus=6, object_store_memory=STORE)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


async def reached(run: OpenedRun, version: int) -> None:
    while run.learner is None or run.learner.version < version:  # noqa: ASYNC110 (nothing tells)
        await asyncio.sleep(0.05)


def train(models: Path, folder: Path, *settings: str, disturb: Disturb | None = None) -> OpenedRun:
    """Train a tiny student, with something happening meanwhile; the run as it was at the end."""
    config = tiny_config(models, *SETTINGS, *settings)

    async def both() -> OpenedRun:
        async with open_training(config, folder, resume=False, watcher=Watcher()) as run:
            disturbing = asyncio.ensure_future(disturb(run) if disturb else asyncio.sleep(0))
            await run.train()
            await disturbing
            return run

    return asyncio.run(both())


def assert_whole(folder: Path, updates: int) -> list[dict[str, Any]]:
    """Every update once, no sample trained on twice, every response accounted for."""
    lines = [line for line in read_metrics(folder) if line["type"] == "update"]
    assert [line["update"] for line in lines] == list(range(1, updates + 1))
    trained = [sample for line in lines for sample in line["sample_ids"]]
    assert len(trained) == len(set(trained)) == 8 * updates
    for line in lines:
        ledger = line["ledger"]
        assert ledger["generated"] == ledger["trained"] + sum(ledger["discarded"].values()) + ledger["buffered"]
        assert line["max_lag"] <= 1
    batches = [line["batch"] for line in read_metrics(folder) if line["type"] == "batch"]
    assert batches == list(range(len(batches)))
    return lines


def test_a_run_on_ray_is_the_run_of_one_process(two_nodes: Cluster, models: Path, tmp_path: Path) -> None:
    """Without overlap nothing depends on timing: the same samples in the same order, and the same losses."""
    settings = ("run.updates=3", "rollout.overlap=false", "evaluation.at_end=true")
    several = ("runtime.rollout_engines=2", "runtime.environment_workers=1")
    train(models, tmp_path / "ray", *settings, *several)
    train_locally(tiny_config(models, *SETTINGS, *settings, "runtime.kind=local"), tmp_path / "local")
    on_ray, here = assert_whole(tmp_path / "ray", 3), assert_whole(tmp_path / "local", 3)
    assert [line["sample_ids"] for line in on_ray] == [line["sample_ids"] for line in here]
    for ours, theirs in zip(on_ray, here, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert ours["reverse_kl"] == pytest.approx(theirs["reverse_kl"], rel=1e-3)


class Where:
    """An actor that says on which machine it is."""

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


def test_ranks_of_a_learner_are_on_one_machine_and_engines_are_spread(two_nodes: Cluster) -> None:
    counts = ("runtime.rollout_engines=2", "runtime.learners=3", "runtime.cpus=1")
    config = resolve("pocket", ["runtime.kind=ray", *counts])
    wanted = Demands.of(config)
    with cluster(config.runtime, wanted):
        engines = [actors(Where, wanted.engine, 1)() for _ in range(2)]
        assert len(set(ray.get([engine.node.remote() for engine in engines]))) == 2
        ranks = [actors(Where, wanted.learner, 1, serial=True, bundle=rank)() for rank in range(3)]
        assert len(set(ray.get([rank.node.remote() for rank in ranks]))) == 1


def test_gigpo_on_two_engines_and_two_ranks_is_the_run_of_one_process(
    two_nodes: Cluster, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole groups in the same order, several optimiser steps per update, and the KL to an anchor."""
    monkeypatch.setitem(table._REGISTERED, NAME, EVEN)
    settings = (*GROUPS, "rollout.overlap=false", "learner.kl_weight=0.1", "environment.turn_limit=3")
    several = ("runtime.rollout_engines=2", "runtime.learners=2")
    train(models, tmp_path / "ray", *settings, *several)
    train_locally(tiny_config(models, *SETTINGS, *settings, "runtime.kind=local"), tmp_path / "local")
    on_ray, here = (
        [line for line in read_metrics(tmp_path / name) if line["type"] == "update"]
        for name in ("ray", "local")
    )
    assert len(on_ray) == len(here) == 3
    for ours, theirs in zip(on_ray, here, strict=True):
        assert ours["sample_ids"] == theirs["sample_ids"]
        assert ours["ledger"] == theirs["ledger"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert ours["extra"]["anchor_kl"] == pytest.approx(theirs["extra"]["anchor_kl"], rel=1e-3)
        assert ours["extra"]["optimizer_steps"] == theirs["extra"]["optimizer_steps"] > 1
        assert ours["extra"]["micro_batches"] == 2 * theirs["extra"]["micro_batches"]  # one for each rank


def test_fine_tuning_on_two_ranks_is_that_of_one_process(
    two_nodes: Cluster, models: Path, tmp_path: Path
) -> None:
    """Stopped after three steps and resumed, its ranks go on as if nothing had happened."""
    settings = (
        'sft.data=[{kind = "demonstrator", tasks = 4, success = false}]',
        "sft.steps=5",
        "sft.batch_size=4",
        "sft.warmup=2",
        "sft.held_out=0.4",
        "sft.held_out_every=2",
        "sft.learning_rate=1e-3",
        "evaluation.at_end=true",
    )
    here, there = (
        tiny_config(models, *SETTINGS, *settings, *more)
        for more in (("runtime.kind=local",), ("runtime.learners=2",))
    )
    local = fine_tune(here, tmp_path / "local")
    with pytest.raises(KeyboardInterrupt):
        fine_tune(there, tmp_path / "ray", watcher=StopAfter(3))
    on_ray = fine_tune(there, tmp_path / "ray", resume=True)
    ours, theirs = sft_lines(tmp_path / "ray"), sft_lines(tmp_path / "local")
    assert [line.step for line in ours] == [line.step for line in theirs] == [1, 2, 3, 4, 5]
    for one, other in zip(ours, theirs, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-3)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-3)
        assert (one.held_out or 0.0) == pytest.approx(other.held_out or 0.0, rel=1e-3)
        assert (one.examples, one.tokens) == (other.examples, other.tokens)
    assert on_ray.success_rate.after == local.success_rate.after
    newest = sorted((tmp_path / "ray" / "checkpoints").iterdir())[-1]
    assert (newest / "training" / "shards").is_dir()


class StopAfter(SftWatcher):
    def __init__(self, step: int) -> None:
        self._step = step

    def step(self, line: SftLine) -> None:
        if line.step == self._step:
            raise KeyboardInterrupt


def sft_lines(run: Path) -> list[SftLine]:
    return [line for line in open_run(run).lines if isinstance(line, SftLine)]


def test_lost_engines_teachers_and_environment_workers_only_delay_a_run(
    two_nodes: Cluster, models: Path, tmp_path: Path
) -> None:
    async def disturb(run: OpenedRun) -> None:
        await reached(run, 1)
        ray.kill(run.engine.actors[0])
        await reached(run, 2)
        ray.kill(run.teacher.actors[0])  # type: ignore[union-attr]
        ray.kill(run.found.stage.pool.actors[0])

    run = train(
        models,
        tmp_path / "run",
        "run.updates=4",
        "runtime.rollout_engines=2",
        "runtime.learners=2",
        "runtime.environment_workers=1",
        disturb=disturb,
    )
    lines = assert_whole(tmp_path / "run", 4)
    assert run.lost_learners == 0
    assert run.engine.replaced == run.teacher.replaced == run.found.stage.pool.replaced == 1  # type: ignore[union-attr]
    assert all(line["extra"]["micro_batches"] == 2 for line in lines)  # one for each rank
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    assert (newest / "training" / "shards").is_dir()
    assert (newest / "model" / "model.safetensors").is_file()


def test_a_lost_learner_takes_the_run_back_to_its_last_checkpoint(
    two_nodes: Cluster, models: Path, tmp_path: Path
) -> None:
    async def disturb(run: OpenedRun) -> None:
        await reached(run, 3)
        assert run.learner is not None
        lost = run.learner
        ray.kill(lost.actors[1])
        while run.learner is lost or run.learner.version == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        ray.kill(run.engine.actors[0])  # its replacement needs weights that the new learner published

    run = train(
        models,
        tmp_path / "run",
        "run.updates=6",
        "runtime.learners=2",
        "checkpoint.every=2",
        disturb=disturb,
    )
    assert_whole(tmp_path / "run", 6)
    assert run.lost_learners == 1
    assert run.engine.replaced == 1
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "going on from the last checkpoint" in log
    assert "started at update 2 of 6" in log or "started at update 4 of 6" in log


def test_a_lost_node_only_delays_a_run(two_nodes: Cluster, models: Path, tmp_path: Path) -> None:
    lost_node = two_nodes.worker_nodes.copy().pop()

    async def disturb(run: OpenedRun) -> None:
        await reached(run, 1)
        await asyncio.to_thread(two_nodes.remove_node, lost_node, allow_graceful=False)

    run = train(
        models,
        tmp_path / "run",
        "run.updates=4",
        "runtime.rollout_engines=2",
        "runtime.teacher_replicas=2",
        "runtime.environment_workers=2",
        disturb=disturb,
    )
    assert_whole(tmp_path / "run", 4)
    replaced = (run.engine, run.teacher, run.found.stage.pool)
    assert sum(part.replaced for part in replaced) + run.lost_learners >= 1  # type: ignore[union-attr]


def test_weights_by_broadcast_also_when_a_receiver_is_lost(
    two_nodes: Cluster, models: Path, tmp_path: Path
) -> None:
    async def disturb(run: OpenedRun) -> None:
        await reached(run, 2)
        ray.kill(run.engine.actors[0])

    run = train(
        models,
        tmp_path / "run",
        "run.updates=5",
        "runtime.rollout_engines=2",
        "runtime.weight_sync=collective",
        disturb=disturb,
    )
    assert_whole(tmp_path / "run", 5)
    assert run.engine.replaced == 1
    assert run.engine.version == 5
    assert run.learner is not None
    assert run.learner.broadcasts >= 2  # before the loss
    assert run.learner.broadcasts + run.learner.fallbacks >= 4  # with no engine up there is nobody to send to


def test_rollout_drivers_play_the_batches_of_one_process_also_when_one_is_lost(
    two_nodes: Cluster, models: Path, tmp_path: Path
) -> None:
    async def disturb(run: OpenedRun) -> None:
        await reached(run, 1)
        assert run.drivers is not None
        ray.kill(run.drivers.actors[0])

    settings = ("run.updates=3", "rollout.overlap=false")
    several = ("runtime.rollout_engines=2", "runtime.rollout_drivers=2")
    run = train(models, tmp_path / "ray", *settings, *several, disturb=disturb)
    train_locally(tiny_config(models, *SETTINGS, *settings, "runtime.kind=local"), tmp_path / "local")
    on_ray, here = assert_whole(tmp_path / "ray", 3), assert_whole(tmp_path / "local", 3)
    assert run.drivers is not None
    assert run.drivers.replaced == 1
    assert [line["sample_ids"] for line in on_ray] == [line["sample_ids"] for line in here]
    for ours, theirs in zip(on_ray, here, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert ours["ledger"] == theirs["ledger"]


@pytest.mark.parametrize("learners", [2, 4])
def test_a_learner_in_two_copies_makes_the_updates_of_one_process(
    two_nodes: Cluster, models: Path, tmp_path: Path, learners: int
) -> None:
    """Two copies of one rank each, and of two ranks each that share one."""
    settings = ("run.updates=3", "rollout.overlap=false")
    several = (f"runtime.learners={learners}", "runtime.learner_copies=2")
    train(models, tmp_path / "ray", *settings, *several)
    train_locally(tiny_config(models, *SETTINGS, *settings, "runtime.kind=local"), tmp_path / "local")
    on_ray, here = assert_whole(tmp_path / "ray", 3), assert_whole(tmp_path / "local", 3)
    assert [line["sample_ids"] for line in on_ray] == [line["sample_ids"] for line in here]
    for ours, theirs in zip(on_ray, here, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=1e-3)
    ours, theirs = (weights_of(tmp_path / name) for name in ("ray", "local"))
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert torch.allclose(weight, theirs[name], rtol=1e-3, atol=1e-5), name


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    newest = sorted((run / "checkpoints").iterdir())[-1]
    return load_file(newest / "model" / "model.safetensors")
