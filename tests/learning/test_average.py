"""Averaged weights: what they are, that a resumed learner keeps them bit by bit, and where a checkpoint holds them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from actfirst.config.load import resolve
from actfirst.learning.checkpoint import load, save
from actfirst.learning.sharded import ShardedLearner
from actfirst.learning.sharded_checkpoint import restore_sharded, save_sharded
from actfirst.learning.update import Learner
from actfirst.models.folder import resolve_model
from tests.learning.making import learning, make_samples, plain_model
from tests.learning.ranks import on_ranks

KEPT = learning(learning_rate=1e-2, average=0.2)


def trained(learner: Learner, updates: int) -> Learner:
    for seed in range(learner.version, updates):
        learner.update(make_samples(4, seed=seed))
    return learner


def copy(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in weights.items()}


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_paper_averages_nothing() -> None:
    """Appendix "OPD Optimization" evaluates the weights of an update as they are."""
    assert resolve("paper/alfworld-1.7b").learner.average == 0.0


def test_an_average_forgets_the_first_weights_soon_and_then_with_its_decay(checkpoint: Path) -> None:
    """By hand: the decays of the first updates are 1/10, 2/11 and then the 0.2 that was asked for."""
    learner = Learner(checkpoint, KEPT)
    expected = copy(learner.export())
    for update, decay in enumerate((1 / 10, 2 / 11, 0.2, 0.2), 1):
        trained(learner, update)
        for name, now in learner.export().items():
            expected[name] = decay * expected[name] + (1 - decay) * now
    found = learner.export(averaged=True)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)
    assert not same(found, learner.export())


def test_an_average_changes_nothing_about_training(qwen3: Path) -> None:
    plain = trained(Learner(qwen3, learning(learning_rate=1e-2)), 3)
    assert same(plain.export(), trained(Learner(qwen3, KEPT), 3).export())
    assert same(plain.export(), plain.export(averaged=True)), "without an average it is the weights themselves"


@pytest.mark.parametrize("rank", [0, 4])
def test_a_resumed_average_continues_bit_by_bit(qwen3: Path, tmp_path: Path, rank: int) -> None:
    if rank:
        pytest.importorskip("peft")
    settings = KEPT.model_copy(update={"adapter_rank": rank})
    learner = trained(Learner(qwen3, settings), 2)
    resumed = Learner(qwen3, settings)
    resumed.restore(load(save(tmp_path, learner, [], {})).learner)
    whole, parts = trained(learner, 4), trained(resumed, 4)
    assert same(whole.export(averaged=True), parts.export(averaged=True))
    assert same(whole.moments(), parts.moments())


def test_an_average_that_is_asked_for_later_begins_with_the_weights_then(qwen3: Path, tmp_path: Path) -> None:
    stored = load(save(tmp_path, trained(Learner(qwen3, learning(learning_rate=1e-2)), 2), [], {}))
    later = Learner(qwen3, KEPT)
    later.restore(stored.learner)
    assert same(later.export(averaged=True), later.export())


def test_a_checkpoint_holds_both_and_stands_for_the_averaged_one(qwen3: Path, tmp_path: Path) -> None:
    learner = trained(Learner(qwen3, KEPT), 2)
    stored = save(tmp_path, learner, [], {})
    for folder, averaged in ((stored / "model", False), (stored / "average", True)):
        weights = dict(plain_model(folder).named_parameters())
        assert same(weights, learner.export(averaged=averaged)), folder.name
    assert resolve_model(str(stored), "models.student") == stored / "average"
    assert resolve_model(str(stored / "model"), "models.student") == stored / "model"
    plain = save(tmp_path / "plain", Learner(qwen3, learning()), [], {})
    assert not (plain / "average").exists()
    assert resolve_model(str(plain), "models.student") == plain / "model"


def averaged_on_a_rank(source: Path, folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    learner = trained(ShardedLearner(source, KEPT), 2)
    stored = load(save_sharded(folder, learner, [], {}))
    again = ShardedLearner(source, KEPT)
    restore_sharded(again, stored)
    return trained(learner, 3).export(averaged=True), trained(again, 3).export(averaged=True)


def test_each_rank_averages_its_shard(qwen3: Path, tmp_path: Path) -> None:
    """Two ranks have the average of one process but for rounding, and resume from their own checkpoint exactly."""
    whole, resumed = on_ranks(2, averaged_on_a_rank, qwen3, tmp_path)[0]
    assert same(whole, resumed)
    alone = trained(Learner(qwen3, KEPT), 3).export(averaged=True)
    for name, tensor in alone.items():
        torch.testing.assert_close(whole[name], tensor, rtol=1e-3, atol=1e-3)
    one = Learner(qwen3, KEPT)
    one.restore(load(tmp_path / "step-000002").learner)
    model = plain_model(tmp_path / "step-000002" / "average")
    assert same(dict(model.named_parameters()), one.export(averaged=True))
