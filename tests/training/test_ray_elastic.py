"""A learner whose machine is lost and does not come back, on a real Ray cluster of two logical nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("ray")

import ray
from ray.cluster_utils import Cluster

from actfirst.errors import LearnerLost
from actfirst.learning.checkpoint import latest_valid
from actfirst.records import UpdateStats
from actfirst.training.local import LocalLearner
from actfirst.training.ray import learner as learner_module
from actfirst.training.ray.cluster import Demands, cluster
from actfirst.training.ray.learner import RayLearner, start_learner
from tests.learning.making import make_samples
from tests.support.tiny_run import tiny_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STORE = 200 * 1024**2
AT_MOST = 5  # losses until the cluster has noticed


@pytest.fixture
def narrow_nodes() -> Iterator[Cluster]:
    """Each has a place for one rank."""
    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
    )
    nodes.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def test_one_rank_goes_on_from_the_checkpoint_of_two(
    narrow_nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_module, "LOOKS", 0)
    settings = ("runtime.learners=2", "runtime.least_learners=1", "learner.batch_size=8")
    config = tiny_config(tmp_path / "models", "runtime.kind=ray", *settings)
    student, folder = tmp_path / "models" / "student", tmp_path / "checkpoints"
    first, second = make_samples(8, seed=1), make_samples(8, seed=2)
    ranks: list[int] = []

    async def opened() -> RayLearner:
        learner = start_learner(student, config, folder)
        await learner.open(latest_valid(folder).checkpoint)
        ranks.append(len(learner.actors))
        return learner

    async def go_on() -> UpdateStats:
        """As a run does: from the checkpoint, as often as the learner is lost."""
        for _ in range(AT_MOST):
            try:
                learner = await opened()
                assert learner.version == 1
                return await learner.update(second)
            except LearnerLost:
                continue
        raise AssertionError("the learner was lost again and again")

    async def with_a_loss() -> UpdateStats:
        learner = await opened()
        await learner.update(first)
        await learner.take((), {}, True)
        await learner.write(2, set(), False)
        lost = narrow_nodes.worker_nodes.copy().pop()
        await asyncio.to_thread(narrow_nodes.remove_node, lost, allow_graceful=False)
        with pytest.raises(LearnerLost):
            await learner.update(second)
        return await go_on()

    async def in_one_process() -> UpdateStats:
        learner = LocalLearner(student, config.learner, tmp_path / "local")
        await learner.update(first)
        stats = await learner.update(second)
        await learner.close()
        return stats

    wanted = replace(Demands.of_players(config, 0), learner=Demands.of(config).learner)
    with cluster(config.runtime, wanted):
        found = asyncio.run(with_a_loss())
    here = asyncio.run(in_one_process())
    assert (ranks[0], ranks[-1]) == (2, 1)
    assert found.loss == pytest.approx(here.loss, rel=1e-3)
    assert found.grad_norm == pytest.approx(here.grad_norm, rel=1e-3)
