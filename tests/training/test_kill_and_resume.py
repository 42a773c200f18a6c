"""Killed with SIGKILL anywhere, a run resumes: same task order, nothing trained twice, nothing lost."""

from __future__ import annotations

import resource
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actfirst.lab.torture.troubles import Kill
from actfirst.runs.run_folder import RESPONSES, read_episodes, read_lines, read_metrics
from tests.support.killing import KILLED, Trouble, train
from tests.support.tiny_run import overrides

UPDATES = 4
SMALL = (
    f"run.updates={UPDATES}",
    "rollout.tasks_per_batch=2",
    "learner.batch_size=3",
    "environment.turn_limit=3",
    "rollout.generation.response_limit=24",
)


@dataclass(frozen=True)
class FullDisk:
    """No file may grow beyond some bytes; what the run says about that goes to a file."""

    said: Path

    def __call__(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
        sys.stderr = self.said.open("w", buffering=1)


def begin(run: Path, models: Path, *more: str, trouble: Trouble | None = None) -> int | None:
    return train(["pocket", *overrides(models, *SMALL, *more), "--run", str(run)], *filter(None, [trouble]))


def resume(run: Path, *troubles: Trouble) -> int | None:
    return train(["--run", str(run), "--resume"], *troubles)


def metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run) if line["type"] == kind]


def trained(run: Path) -> list[str]:
    return [sample for line in metrics(run, "update") for sample in line["sample_ids"]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def whole(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to, with checkpoints of updates 2 and 4."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert begin(run, models) == 0
    return run


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([Kill("write", 4)], id="before the first batch is complete"),
        pytest.param([Kill("fsync", 11)], id="in the first checkpoint"),
        pytest.param([Kill("rename", 1)], id="before the first checkpoint is in its place"),
        pytest.param([Kill("rename", 2)], id="two updates after a checkpoint"),
        pytest.param([Kill("replace", 2)], id="before the summary"),
        pytest.param([Kill("fsync", 16), Kill("rename", 2), Kill("write", 4)], id="again and again"),
    ],
)
def test_a_killed_run_ends_like_an_uninterrupted_one(
    kills: list[Kill], models: Path, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    first, *more = kills
    assert begin(run, models, trouble=first) == KILLED
    for kill in more:
        assert resume(run, kill) == KILLED
    assert resume(run) == 0

    updates = metrics(run, "update")
    assert [line["update"] for line in updates] == list(range(1, UPDATES + 1))
    assert trained(run) == trained(whole)
    assert len(trained(run)) == len(set(trained(run)))
    assert [line["task"] for line in read_episodes(run)] == [line["task"] for line in read_episodes(whole)]
    ledger = updates[-1]["ledger"]
    assert ledger["generated"] == sum(line["full_responses"] for line in metrics(run, "batch"))
    assert ledger["generated"] == ledger["trained"] + sum(ledger["discarded"].values()) + ledger["buffered"]
    assert ledger["trained"] == len(trained(run))
    assert [line["sample"] for line in read_lines(run, RESPONSES)] == [
        line["sample"] for line in read_lines(whole, RESPONSES)
    ]


@pytest.mark.parametrize("kill", [Kill("write", 6), Kill("rename", 2)], ids=str)
def test_nothing_is_lost_or_trained_twice_when_rollouts_overlap_with_updates(
    kill: Kill, models: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert begin(run, models, "rollout.overlap=true", trouble=kill) == KILLED
    assert resume(run) == 0
    updates = metrics(run, "update")
    assert [line["update"] for line in updates] == list(range(1, UPDATES + 1))
    assert len(trained(run)) == len(set(trained(run))) == updates[-1]["ledger"]["trained"]
    assert max(line["max_lag"] for line in updates) <= 1
    assert [line["batch"] for line in metrics(run, "batch")] == list(range(len(metrics(run, "batch"))))


def test_a_corrupt_checkpoint_is_named_and_the_one_before_it_is_used(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    newest = sorted((run / "checkpoints").iterdir())[-1]
    weights = newest / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert resume(run) == 0
    assert [line["update"] for line in metrics(run, "update")] == [1, 2, 3, 4]
    assert trained(run) == trained(whole)
    assert newest.name in (run / "log.txt").read_text()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses the file size limit of Linux")
def test_a_full_disk_is_one_clear_error_and_the_run_can_go_on_afterwards(
    models: Path, whole: Path, tmp_path: Path
) -> None:
    run, said = tmp_path / "run", tmp_path / "said.txt"
    assert begin(run, models, trouble=FullDisk(said)) == 1
    assert "error:" in said.read_text()
    assert "Traceback" not in said.read_text()
    assert resume(run) == 0
    assert trained(run) == trained(whole)
