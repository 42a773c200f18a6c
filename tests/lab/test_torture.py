"""`actfirst torture`: a run that is troubled survives; one that would not is noticed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from actfirst.cli.lab.torture import _command
from actfirst.lab.torture.draw import Draw, Given
from actfirst.lab.torture.power import Disk, PowerCut
from actfirst.lab.torture.torture import SHORT, Outcome, Tally, Tortured, Torturer
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


def torturer(folder: Path, *settings: str) -> Torturer:
    return Torturer(_command, ("pocket", *overrides(folder, *SHORT, *settings)), folder, exact=True)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Torturer:
    made = torturer(tmp_path_factory.mktemp("torture"))
    assert made.quiet().operations > 50
    return made


def struck(outcome: Outcome) -> list[int]:
    assert outcome.faults == ()
    return [times for _, times in outcome.struck]


def test_a_run_survives_kills_a_power_cut_and_a_full_disk_one_after_the_other(quiet: Torturer) -> None:
    troubles = (Kill("rename", 1), PowerCut(30, 1), NoSpace("fsync", 3), Kill("write", 3))
    assert struck(quiet.trial(troubles)) == [1, 1, 1, 1]


def test_a_run_survives_a_slow_disk_and_jumps_of_the_clock_without_ending(quiet: Torturer) -> None:
    assert struck(quiet.trial([SlowDisk(0.001)])) == [1]
    assert struck(quiet.trial([ClockJump(20, -1e8), Kill("write", 1)])) == [1]


def test_trouble_that_comes_too_late_is_tried_but_has_not_struck(quiet: Torturer) -> None:
    assert struck(quiet.trial([Kill("write", 10_000)])) == [0]


@pytest.mark.slow
def test_a_run_survives_lost_environment_workers(tmp_path: Path) -> None:
    made = torturer(tmp_path, *WORKERS)
    made.quiet()
    assert sum(struck(made.trial([LostPart(*WORKER, every=3, times=2)]))) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_on_ray_survives_lost_ranks_and_engines(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    made = torturer(tmp_path, "run.updates=6", "runtime.kind=ray", "runtime.learners=2", "runtime.cpus=0.1")
    made.quiet()
    for name, kind in ON_RAY[:2]:
        assert sum(struck(made.trial([LostPart(name, kind, every=8, times=2)]))) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_power_cut_is_survived(quiet: Torturer) -> None:
    operations = quiet.quiet().operations
    for count in range(1, operations, 4):
        assert struck(quiet.trial([PowerCut(count, count)])) == [1]


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


def test_a_run_that_lost_something_is_noticed_and_kept(quiet: Torturer) -> None:
    outcome, result = quiet.trial([Forger("rename", 1, "forgery")]), Tortured(0)
    assert outcome.faults
    result.add(outcome)
    assert result.kinds == {"forgery": Tally(tried=1, struck=1, survived=0, failed=1)}
    assert (result.runs, result.kills) == (1, 1)
    assert "Forger" in result.failures[0]
    assert list(quiet.folder.glob("failed-*/run/config.toml"))


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
