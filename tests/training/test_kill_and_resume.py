"""Killed with SIGKILL anywhere, a run resumes: same task order, nothing trained twice, nothing lost."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from actfirst.runs.run_folder import read_episodes, read_metrics
from tests.support.tiny_run import overrides

UPDATES = 12
KILLS = 8

# Every run is a process of its own, forked from one that has imported everything.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["actfirst.training.open", "actfirst.training.local", "actfirst.engines.embedded", "transformers"]
)


def train(arguments: list[str]) -> None:
    from actfirst.cli.main import main

    main(["train", *arguments])


def start(run: Path, models: Path, *more: str, resume: bool, updates: int = UPDATES) -> BaseProcess:
    new = ["pocket", *overrides(models, f"run.updates={updates}", *more), "--run", str(run)]
    process = processes.Process(target=train, args=(["--run", str(run), "--resume"] if resume else new,))
    process.start()
    return process


def finish(process: BaseProcess) -> None:
    process.join(timeout=120)
    assert process.exitcode == 0


def metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    try:
        return [line for line in read_metrics(run) if line["type"] == kind]
    except Exception:
        return []


def kill_somewhere(process: BaseProcess, run: Path, rng: random.Random) -> bool:
    """Wait until the run moves, then kill it after a random further delay; True if it was still alive."""
    before = len(metrics(run, "update"))
    deadline = time.monotonic() + 60
    while process.is_alive() and len(metrics(run, "update")) == before and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(rng.uniform(0.0, 0.3))
    process.kill()
    process.join()
    return process.exitcode != 0


def test_a_run_killed_again_and_again_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    models, run, rng = tmp_path / "models", tmp_path / "run", random.Random(3)
    killed = 0
    process = start(run, models, resume=False)
    while killed < KILLS and kill_somewhere(process, run, rng):
        killed += 1
        process = start(run, models, resume=(run / "config.toml").exists())
    finish(process)
    assert killed >= 3  # otherwise this test shows nothing

    updates = metrics(run, "update")
    assert [line["update"] for line in updates] == list(range(1, UPDATES + 1))
    trained = [sample for line in updates for sample in line["sample_ids"]]
    assert len(trained) == len(set(trained))
    ledger = updates[-1]["ledger"]
    batches = metrics(run, "batch")
    assert ledger["generated"] == sum(line["full_responses"] for line in batches)
    assert ledger["generated"] == ledger["trained"] + sum(ledger["discarded"].values()) + ledger["buffered"]
    assert ledger["trained"] == len(trained)

    whole = tmp_path / "whole"
    finish(start(whole, models, resume=False))
    assert [line["task"] for line in read_episodes(run)] == [line["task"] for line in read_episodes(whole)]
    assert trained == [sample for line in metrics(whole, "update") for sample in line["sample_ids"]]


def test_nothing_is_lost_or_trained_twice_when_rollouts_overlap_with_updates(tmp_path: Path) -> None:
    models, run, rng = tmp_path / "models", tmp_path / "run", random.Random(5)
    process = start(run, models, "rollout.overlap=true", resume=False, updates=6)
    for _ in range(2):
        kill_somewhere(process, run, rng)
        process = start(run, models, resume=(run / "config.toml").exists())
    finish(process)
    updates = metrics(run, "update")
    assert [line["update"] for line in updates] == list(range(1, 7))
    trained = [sample for line in updates for sample in line["sample_ids"]]
    assert len(trained) == len(set(trained)) == updates[-1]["ledger"]["trained"]
    assert max(line["max_lag"] for line in updates) <= 1
    assert [line["batch"] for line in metrics(run, "batch")] == list(range(len(metrics(run, "batch"))))


def test_a_corrupt_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path: Path) -> None:
    models, run = tmp_path / "models", tmp_path / "run"
    finish(start(run, models, resume=False, updates=4))
    newest = sorted((run / "checkpoints").iterdir())[-1]
    weights = newest / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    finish(start(run, models, resume=True))
    assert [line["update"] for line in metrics(run, "update")] == [1, 2, 3, 4]
    assert newest.name in (run / "log.txt").read_text()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses the file size limit of Linux")
def test_a_full_disk_is_one_clear_error_and_the_run_can_go_on_afterwards(tmp_path: Path) -> None:
    models, run = tmp_path / "models", tmp_path / "run"
    arguments = ["pocket", *overrides(models, "run.updates=4"), "--run", str(run)]
    limited = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))\n"
        "from actfirst.cli.main import main\nmain(sys.argv[1:])\n"
    )
    failed = subprocess.run(
        [sys.executable, "-c", limited, "train", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert failed.returncode == 1
    assert "error:" in failed.stderr
    assert "Traceback" not in failed.stderr
    finish(start(run, models, resume=True))
    assert [line["update"] for line in metrics(run, "update")] == [1, 2, 3, 4]
