"""Runs that learn from rewards: whole groups, no teacher unless one is asked, and a clear end without signal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actfirst.errors import RolloutError
from actfirst.methods import table
from actfirst.methods.group_objective import NO_SIGNAL
from actfirst.runs.run_folder import read_episodes, read_metrics
from actfirst.training.open import train
from tests.support.even_tokens import EVEN, GROUPS, NAME
from tests.support.tiny_run import tiny_config


@pytest.fixture(autouse=True)
def _even_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table._REGISTERED, NAME, EVEN)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run) if line["type"] == kind]


def test_an_update_takes_all_responses_of_whole_groups_of_one_version(models: Path, tmp_path: Path) -> None:
    """No teacher is opened: its folder does not even exist."""
    train(tiny_config(models, *GROUPS, "models.teacher=nowhere"), tmp_path / "run")
    updates, episodes = lines(tmp_path / "run", "update"), list(read_episodes(tmp_path / "run"))
    assert [line["update"] for line in updates] == [1, 2, 3]
    for number, line in enumerate(updates):
        assert line["max_lag"] == 0
        members = {sample.rpartition("-t")[0] for sample in line["sample_ids"]}
        assert len(members) == 6
        assert all(name.startswith(f"b{number:05d}") for name in members)
        ledger = line["ledger"]
        assert ledger["buffered"] == 0
        assert ledger["generated"] == ledger["trained"] + sum(ledger["discarded"].values())
        assert line["extra"]["optimizer_steps"] == -(-len(line["sample_ids"]) // 4)
    assert len(episodes) == 18


def test_a_resumed_run_ends_as_an_uninterrupted_one(models: Path, tmp_path: Path) -> None:
    settings = (*GROUPS, "learner.kl_weight=0.1", "checkpoint.every=1")
    train(tiny_config(models, *settings), tmp_path / "whole")
    train(tiny_config(models, *settings, "run.updates=1"), tmp_path / "parts")
    train(tiny_config(models, *settings), tmp_path / "parts", resume=True)
    whole, parts = lines(tmp_path / "whole", "update"), lines(tmp_path / "parts", "update")
    for key in ("sample_ids", "ledger"):
        assert [line[key] for line in whole] == [line[key] for line in parts]
    # Which scores are computed together is a matter of timing, and they round differently.
    for key in ("loss", "grad_norm"):
        assert [line[key] for line in whole] == pytest.approx([line[key] for line in parts], rel=1e-3)
    assert all(line["extra"]["anchor_kl"] >= 0.0 for line in whole)


def test_batches_without_any_signal_end_the_run_with_their_reason(models: Path, tmp_path: Path) -> None:
    """Random models never succeed, so all rewards are 0, and three batches in a row teach nothing."""
    config = tiny_config(models, *GROUPS, "rollout.method=grpo", "methods.grpo.invalid_penalty=0.0")
    with pytest.raises(RolloutError, match=f"3 rollout batches in a row gave nothing.*{NO_SIGNAL}"):
        train(config, tmp_path / "run")
    assert lines(tmp_path / "run", "update") == []
