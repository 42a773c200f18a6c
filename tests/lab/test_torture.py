"""`actfirst torture`: a run that is troubled survives; one that would not is noticed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from actfirst.cli.lab.torture import _command
from actfirst.lab.torture.draw import Draw, Given
from actfirst.lab.torture.power import Disk, PowerCut
from actfirst.lab.torture.torture import JOBS, SHORT, Outcome, Tally, Tortured, Torturer
from actfirst.lab.torture.troubles import (
    ON_RAY,
    WORKER,
    ClockJump,
    Kill,
    LostPart,
    NoSpace,
    Signal,
    SlowDisk,
    Struck,
    Trouble,
    unnoted,
)
from actfirst.runs.run_folder import RunFolder
from tests.support.tiny_run import overrides

WORKERS = ("pool.kind=processes", "pool.workers=1")


@dataclass(frozen=True)
class Quiet:
    """A run that nothing happened to, and a job that troubles others like it."""

    torturer: Torturer
    job: ProcessPoolExecutor
    operations: int

    @classmethod
    @contextmanager
    def made(cls, folder: Path, *settings: str) -> Iterator[Quiet]:
        torturer = Torturer(_command, ("pocket", *overrides(folder, *SHORT, *settings)), folder, exact=True)
        with ProcessPoolExecutor(1, JOBS) as job:
            yield cls(torturer, job, job.submit(torturer.quiet).result().operations)

    def trial(self, *troubles: Trouble) -> Outcome:
        return self.job.submit(self.torturer.trial, troubles).result()

    def struck(self, *troubles: Trouble) -> list[int]:
        """How often each came to a run that survived."""
        outcome = self.trial(*troubles)
        assert outcome.faults == ()
        return [times for _, times in outcome.struck]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with Quiet.made(tmp_path_factory.mktemp("torture")) as made:
        assert made.operations > 50
        yield made


def test_a_run_survives_kills_a_power_cut_and_a_full_disk_one_after_the_other(quiet: Quiet) -> None:
    troubles = (Kill("rename", 1), PowerCut(30, 1), NoSpace("fsync", 3), Kill("write", 3))
    assert quiet.struck(*troubles) == [1, 1, 1, 1]


def test_a_run_survives_a_slow_disk_and_jumps_of_the_clock_without_ending(quiet: Quiet) -> None:
    assert quiet.struck(SlowDisk(0.001)) == [1]
    assert quiet.struck(ClockJump(20, -1e8), Kill("write", 1)) == [1]


def test_trouble_that_comes_too_late_is_tried_but_has_not_struck(quiet: Quiet) -> None:
    assert quiet.struck(Kill("write", 10_000)) == [0]


@pytest.mark.slow
def test_a_run_survives_lost_environment_workers(tmp_path: Path) -> None:
    with Quiet.made(tmp_path, *WORKERS) as made:
        assert sum(made.struck(LostPart(*WORKER, every=3, times=2))) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_on_ray_survives_lost_ranks_and_engines(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    settings = ("run.updates=6", "runtime.kind=ray", "runtime.learners=2", "runtime.cpus=0.1")
    with Quiet.made(tmp_path, *settings) as made:
        for name, kind in ON_RAY[:2]:
            assert sum(made.struck(LostPart(name, kind, every=8, times=2))) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_power_cut_is_survived(quiet: Quiet) -> None:
    for count in range(1, quiet.operations, 4):
        assert quiet.struck(PowerCut(count, count)) == [1]


class Forger(Kill):
    """Ends a run, and harms what it left: the run that is resumed cannot be the same."""

    def __call__(self, struck: Struck = unnoted) -> None:
        real = os.rename

        def harmful(*arguments: object, **more: object) -> None:
            real(*arguments, **more)  # type: ignore[arg-type]
            run = Path(str(arguments[1])).parents[1]
            shutil.copyfile(run / "metrics.jsonl", run / "copy")
            (run / "metrics.jsonl").unlink()
            struck()
            os.kill(os.getpid(), signal.SIGKILL)

        os.rename = harmful  # type: ignore[assignment]


def test_a_run_that_lost_something_is_noticed_and_kept(quiet: Quiet) -> None:
    outcome, result = quiet.trial(Forger("rename", 1, "forgery")), Tortured(0)
    assert outcome.faults
    result.add(outcome)
    assert result.kinds == {"forgery": Tally(tried=1, struck=1, survived=0, failed=1)}
    assert (result.runs, result.kills) == (1, 1)
    assert "Forger" in result.failures[0]
    assert list(quiet.torturer.folder.glob("failed-*/run/config.toml"))


def test_troubles_are_drawn_by_the_seed_and_of_all_kinds() -> None:
    def drawn(seed: int) -> list[Trouble]:
        draw = Draw(random.Random(seed), Given(operations=40, seconds=5.0), (WORKER, *ON_RAY))
        return [draw.one() for _ in range(600)]

    troubles = drawn(1)
    assert troubles == drawn(1) != drawn(2)
    assert len({trouble.kind for trouble in troubles}) == 7 + 1 + len(ON_RAY)
    assert all(trouble.seconds <= 5.0 for trouble in troubles if isinstance(trouble, Signal))
    points = [trouble.count for trouble in troubles if isinstance(trouble, Kill)]
    assert sorted(points[:40]) == list(range(1, 41)), "every file operation before one comes again"


class Lost(random.Random):
    """Nothing that was not synced has reached the disk."""

    def choice(self, states):  # type: ignore[no-untyped-def]
        return states[0]


def test_a_power_cut_leaves_what_was_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    (root / "old").write_text("old")
    monkeypatch.setattr(os, "fsync", os.fsync)
    disk = Disk(root)
    disk.watch()
    with (root / "named").open("w") as file:
        file.write("synced")
        file.flush()
        os.fsync(file.fileno())
        file.write(" and more")
    handle = os.open(root, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    (root / "old").rename(root / "renamed")
    (root / "new").write_text("new")
    disk.cut(tmp_path / "left", Lost())
    left = {path.name: path.read_text() for path in (tmp_path / "left").iterdir()}
    assert left == {"named": "synced", "old": "old"}


def test_what_a_run_has_when_it_takes_a_checkpoint_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only the files: also their names in the run folder, and the run folder's own name."""
    root = tmp_path / "disk"
    root.mkdir()
    monkeypatch.setattr(os, "fsync", os.fsync)
    disk = Disk(root)
    disk.watch()
    with RunFolder.create(root / "run", "[run]\n") as folder:
        offsets = folder.offsets()
        disk.cut(tmp_path / "left", Lost())
    left = tmp_path / "left" / "run"
    assert (left / "config.toml").read_text() == "[run]\n"
    assert {*offsets, "checkpoints"} <= {path.name for path in left.iterdir()}


def test_the_age_of_a_process_does_not_jump_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline (`run.deadline`) is measured by it."""
    from actfirst.training.clock import process_age

    before, now = process_age(), time.time
    monkeypatch.setattr(time, "time", lambda: now() + 1e8)
    assert 0 <= process_age() - before < 1e6
