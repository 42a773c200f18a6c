"""Runs that learn from rewards: whole groups, no teacher unless one is asked, and a clear end without signal."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from actfirst.errors import RolloutError
from actfirst.methods import table
from actfirst.methods.group_objective import NO_SIGNAL, GroupRelative
from actfirst.records import Episode
from actfirst.runs.run_folder import read_episodes, read_metrics
from actfirst.training.open import train
from tests.support.even_tokens import EVEN, GROUPS, NAME, even_share
from tests.support.tiny_run import tiny_config

SMALL = ("environment.turn_limit=2", "rollout.generation.response_limit=24")


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


def test_what_cannot_be_compared_is_counted_and_no_step_is_made_for_it(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reward that raises for one member of the first batch, is equal in the second, and tells in all others."""

    def reward(episode: Episode) -> float:
        if episode.id == "b00000-001":
            raise KeyError("no such episode")
        return 0.0 if episode.batch == 1 else even_share(episode)

    monkeypatch.setitem(table._REGISTERED, NAME, replace(EVEN, objective=GroupRelative(reward=reward)))
    train(tiny_config(models, *GROUPS, *SMALL, "run.updates=2"), tmp_path / "run")
    first, second = lines(tmp_path / "run", "update")
    assert {sample[:6] for sample in second["sample_ids"]} == {"b00002"}
    assert "b00000-001" not in {sample.rpartition("-t")[0] for sample in first["sample_ids"]}
    failed = "left its group: the reward failed (KeyError)"
    assert second["ledger"]["discarded"] == {failed: 2, NO_SIGNAL: 12, "stale": 0}
    assert second["ledger"]["trained"] == len(first["sample_ids"]) + len(second["sample_ids"]) == 22
    for line in (first, second):
        assert line["extra"]["optimizer_steps"] == 3  # of 10 and 12 samples, 4 at a time
        assert all(isfinite(line[key]) for key in ("loss", "grad_norm", "advantage"))


def test_a_reward_that_always_raises_ends_the_run_with_its_error(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reward(episode: Episode) -> float:
        raise KeyError("no such score")

    monkeypatch.setitem(table._REGISTERED, NAME, replace(EVEN, objective=GroupRelative(reward=reward)))
    with pytest.raises(RolloutError, match=r"gave nothing to train on.*the reward failed \(KeyError\)"):
        train(tiny_config(models, *GROUPS, *SMALL), tmp_path / "run")
    assert lines(tmp_path / "run", "update") == []


def test_batches_without_any_signal_end_the_run_with_their_reason(models: Path, tmp_path: Path) -> None:
    """Random models never succeed, so all rewards are 0, and three batches in a row teach nothing."""
    config = tiny_config(models, *GROUPS, *SMALL, "rollout.method=grpo", "methods.grpo.invalid_penalty=0.0")
    with pytest.raises(RolloutError, match=f"3 rollout batches in a row gave nothing.*{NO_SIGNAL}"):
        train(config, tmp_path / "run")
    assert lines(tmp_path / "run", "update") == []
