"""One process writes a run folder or a file, whatever happens to lock files; a dead process blocks nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from actfirst.errors import RunFolderError
from actfirst.runs.lock import RunLock

TAKE = """
import sys
from pathlib import Path
from actfirst.errors import RunFolderError
from actfirst.runs.lock import RunLock
path = Path(sys.argv[1])
try:
    (RunLock.take if path.is_dir() else RunLock.take_file)(path)
    print("taken")
except RunFolderError as error:
    print(error)
"""


def elsewhere(path: Path) -> str:
    """What another process says that wants to write there."""
    done = subprocess.run([sys.executable, "-c", TAKE, str(path)], capture_output=True, text=True, timeout=100)
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_deleting_the_lock_file_lets_nobody_in(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "thing"
    if kind == "folder":
        place.mkdir()
    with RunLock.take(place) if kind == "folder" else RunLock.take_file(place):
        assert f"another process (id {os.getpid()}) is writing {place}" in elsewhere(place)
        (place / ".lock" if kind == "folder" else tmp_path / ".thing.lock").unlink()
        assert f"is writing {place}" in elsewhere(place)
    assert elsewhere(place) == "taken\n"


def test_a_lock_is_taken_once_in_a_process(tmp_path: Path) -> None:
    lock = RunLock.take(tmp_path)
    with pytest.raises(RunFolderError, match="already open for writing in this process"):
        RunLock.take(tmp_path)
    lock.release()
    lock.release()
    RunLock.take(tmp_path).release()


HOLD_AND_FORK = """
import os, sys, time
from pathlib import Path
from actfirst.runs.lock import RunLock
lock = RunLock.take(Path(sys.argv[1]))
if (child := os.fork()) == 0:
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
"""


def test_a_forked_worker_that_outlives_a_killed_run_does_not_keep_its_lock(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_FORK, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    worker = int(run.stdout.readline())
    try:
        run.kill()
        run.wait()
        for _ in range(
            1000
        ):  # the child lets go of it before it does anything else, but it has to run for that
            try:
                RunLock.take(tmp_path).release()
                break
            except RunFolderError:
                time.sleep(0.05)
        RunLock.take(tmp_path).release()
        os.kill(worker, 0)  # it is still there
    finally:
        os.kill(worker, signal.SIGKILL)
        run.stdout.close()


def test_waiting_for_a_lock_ends_when_it_is_free(tmp_path: Path) -> None:
    marker = tmp_path / "index.lock"
    held = RunLock.wait_for(marker)
    code = "import sys; from pathlib import Path; from actfirst.runs.lock import RunLock; print('here', flush=True); "
    code += "RunLock.wait_for(Path(sys.argv[1])); print('taken', flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(marker)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "here\n"
        assert other.poll() is None
        held.release()
        assert other.stdout.readline() == "taken\n"
