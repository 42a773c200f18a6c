"""Throughput windows and the decomposition of a speedup, on hand-made runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.errors import RunFolderError
from actfirst.lab.throughput import RunTimes, Window, decompose, times_of
from actfirst.runs.episodes import EpisodeLine
from actfirst.runs.run import open_run
from tests.support.episode_lines import episode, turn
from tests.support.run_folders import update, write_run


def line(ended: float, *seconds: float) -> EpisodeLine:
    turns = [turn(number, length) for number, length in enumerate(seconds, start=1)]
    return EpisodeLine.model_validate(episode(turns, ended=ended))


# The first asks for its first context at second 10 and steps at 12, 15 and 16; the second begins at 14: 18 and 20.
EPISODES = [line(16.0, 2.0, 3.0, 1.0), line(20.0, 4.0, 2.0)]


def test_transitions_are_over_when_their_turns_are() -> None:
    assert [one.completions() for one in EPISODES] == [[12.0, 15.0, 16.0], [18.0, 20.0]]


def test_the_full_window_ends_with_the_last_update() -> None:
    assert RunTimes.of(EPISODES, 30.0).full == Window(5, 20.0)
    assert RunTimes.of(EPISODES, 19.0).full == Window(4, 9.0)  # the last step came later


def test_the_early_window_has_the_same_origin() -> None:
    early = RunTimes.of(EPISODES, 30.0).early(5.0)
    assert early == Window(2, 5.0)
    assert early.rate == 0.4


def test_a_run_shorter_than_the_early_window_has_none() -> None:
    assert RunTimes.of(EPISODES, 30.0).early() is None


def test_a_run_without_transitions_has_no_throughput() -> None:
    with pytest.raises(RunFolderError, match="no transition"):
        RunTimes.of([], 30.0)


def test_a_speedup_is_more_throughput_and_fewer_transitions() -> None:
    # 100 transitions in 50 s against 60 in 15 s: twice the throughput, 60 % of the transitions
    found = decompose(Window(100, 50.0), Window(60, 15.0))
    assert (found.throughput, found.transitions, found.fewer) == (2.0, 0.6, pytest.approx(40.0))
    assert found.speedup == pytest.approx(50.0 / 15.0)


def test_a_run_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", seed=1, seconds=100.0, curve=[(0, 0.0, 1.0), (8, 30.0, 2.0)])
    lines = [episode([turn(1, 2.0), turn(2, 3.0)], ended=40.0), episode([turn(1, 2.0)], ended=200.0)]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.writelines(json.dumps(update(number, 25.0 * number)) + "\n" for number in (1, 2))
    found = times_of(open_run(folder))
    assert found.full == Window(2, 50.0 - 35.0)
    assert found.early(4.0) == Window(1, 4.0)


def test_a_run_that_kept_no_times_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", seed=1, seconds=100.0, curve=[(0, 0.0, 1.0)])
    with pytest.raises(RunFolderError, match="does not say when"):
        times_of(open_run(folder))


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", seed=1, seconds=100.0, curve=[(0, 0.0, 1.0)])
    (folder / "episodes.jsonl").write_text('{"id": "x"}\n')
    with pytest.raises(RunFolderError, match=r"line 1 of .*episodes\.jsonl cannot be read: batch"):
        times_of(open_run(folder))
