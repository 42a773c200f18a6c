"""Parts of a lab: one by one and side by side they give the same, and a part that fails stops no other."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from actfirst.errors import RunFolderError
from actfirst.lab.side_by_side import Part, Say, make_parts


def write(path: Path, say: Say) -> None:
    path.write_text(" ".join(map(str, sorted(os.sched_getaffinity(0)))))
    say(f"{path.name} is there")


def fail(say: Say) -> None:
    raise RunFolderError("no such run")


def die(say: Say) -> None:
    say("about to die")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_fails_is_told_and_stops_no_other(jobs: int, tmp_path: Path) -> None:
    said: list[str] = []
    parts = [
        Part("a", partial(write, tmp_path / "a")),
        Part("bad", fail),
        Part("b", partial(write, tmp_path / "b")),
    ]
    assert make_parts(parts, jobs, said.append) == ["bad: no such run"]
    assert {"a is there", "b is there", "FAILED bad: no such run"} == set(said)
    assert (tmp_path / "a").exists()
    assert (tmp_path / "b").exists()


def test_a_process_that_dies_is_a_part_that_failed(tmp_path: Path) -> None:
    said: list[str] = []
    parts = [Part("killed", die), Part("a", partial(write, tmp_path / "a"))]
    assert make_parts(parts, 2, said.append) == ["killed: its process ended with exit code -9"]
    assert {"about to die", "a is there"} <= set(said)


@pytest.mark.skipif(sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_each_part_has_processors_of_its_own(tmp_path: Path) -> None:
    make_parts([Part(name, partial(write, tmp_path / name)) for name in "ab"], 2, lambda line: None)
    a, b = (set((tmp_path / name).read_text().split()) for name in "ab")
    assert a
    assert b
    assert not a & b
