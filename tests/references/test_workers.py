"""Jobs in worker processes: all are done, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from actfirst.errors import EnvironmentFailure
from actfirst.references.build.workers import GivenUp, run_jobs


@dataclass(frozen=True)
class Doubling:
    """7 ends its process, 8 hangs; everything else is doubled."""

    def work(self, job: int) -> tuple[int, int]:
        if job == 7:
            os._exit(3)
        if job == 8:
            Path(os.environ.get("HANGING", os.devnull)).touch()
            time.sleep(3600)
        return 2 * job, os.getpid()

    def close(self) -> None: ...


def begin(refuse: bool = False) -> Doubling:
    if refuse:
        raise EnvironmentFailure("no Java here")
    return Doubling()


def children() -> set[psutil.Process]:
    return {child for child in psutil.Process().children() if "python" in child.name()}


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """What other tests left running is not ours."""
    before = children()
    yield
    assert children() <= before


def test_in_this_process_in_order() -> None:
    done = list(run_jobs(range(4), begin, 0, 1.0))
    assert [job for job, _ in done] == [0, 1, 2, 3]
    assert {result[1] for _, result in done if not isinstance(result, GivenUp)} == {os.getpid()}


def test_a_worker_that_dies_or_hangs_costs_its_job_only() -> None:
    done = dict(run_jobs([1, 7, 8, 9, 10], begin, 1, 2.0))
    assert done[7] == GivenUp("failed: the worker process ended (exit code 3)")
    assert isinstance(done[8], GivenUp)
    assert "longer than 2 s" in done[8].reason
    results = {job: result[0] for job, result in done.items() if not isinstance(result, GivenUp)}
    assert results == {1: 2, 9: 18, 10: 20}


def test_workers_that_cannot_begin_end_the_work_with_their_error() -> None:
    with pytest.raises(EnvironmentFailure, match="no Java here"):
        list(run_jobs([1, 2], partial(begin, True), 1, 60.0))


def test_giving_up_half_way_leaves_no_process() -> None:
    before = children()
    running = run_jobs(range(100), begin, 2, 60.0)
    next(running)
    assert children() > before
    running.close()  # type: ignore[attr-defined]
    assert children() == before


KILLED = """
from actfirst.references.build.workers import run_jobs
from tests.references.test_workers import begin

for job, (_, pid) in run_jobs([1, 8], begin, 1, 3600.0):
    print(pid, flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_whose_job_hangs_ends_when_its_owner_is_killed(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "hanging"
    monkeypatch.setenv("HANGING", str(hanging))
    owner = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, cwd=Path.cwd())
    assert owner.stdout is not None
    worker = psutil.Process(int(owner.stdout.readline()))
    while not hanging.exists():
        time.sleep(0.01)
    assert worker.is_running()
    os.kill(owner.pid, how)
    owner.wait()
    owner.stdout.close()
    gone, _ = psutil.wait_procs([worker])
    assert gone == [worker]


def test_no_jobs_no_workers() -> None:
    assert list(run_jobs([], partial(begin, True), 3, 1.0)) == []
