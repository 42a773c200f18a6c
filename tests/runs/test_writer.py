"""Who is writing a run folder, as seen by somebody who only looks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from actfirst.runs.lock import RunLock, writer


def test_a_folder_has_a_writer_as_long_as_its_lock_is_held(tmp_path: Path) -> None:
    assert writer(tmp_path) is None
    lock = RunLock.take(tmp_path)
    assert writer(tmp_path) == os.getpid()
    lock.release()
    assert writer(tmp_path) is None


def test_a_process_that_was_killed_writes_no_more(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from actfirst.runs.lock import RunLock; "
        "RunLock.take(pathlib.Path(sys.argv[1])); input()"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE)
    try:
        for _ in range(6000):
            if writer(tmp_path) == child.pid:
                break
            time.sleep(0.01)
        assert writer(tmp_path) == child.pid
    finally:
        child.kill()
        child.wait()
    assert writer(tmp_path) is None


def test_a_later_process_with_the_same_id_is_not_the_writer(tmp_path: Path) -> None:
    path = tmp_path / RunLock.NAME
    path.write_text(f"{os.getpid()}\n")
    os.utime(path, (0, 0))
    assert writer(tmp_path) is None
    path.write_text("nonsense")
    assert writer(tmp_path) is None
