"""A run folder is written by one process, in whole lines, and survives kills and full disks."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ConfigDict

from actfirst.errors import RunFolderError
from actfirst.runs import files
from actfirst.runs.record import Record
from actfirst.runs.run_folder import START, RunFolder, read_episodes, read_metrics, saved_config

CONFIG = "[run]\nseed = 1\n"


class Anything(Record):
    model_config = ConfigDict(extra="allow")


def line(**fields: object) -> Anything:
    return Anything.model_validate(fields)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path / "runs" / "one", CONFIG) as folder:
        yield folder


def test_a_new_folder_holds_the_configuration_and_room_for_checkpoints(folder: RunFolder) -> None:
    assert saved_config(folder.path).read_text() == CONFIG
    assert folder.checkpoints.is_dir()


def test_metrics_and_episodes_are_one_json_object_a_line(folder: RunFolder) -> None:
    folder.append_metrics(line(step=1, loss=0.5))
    folder.append_metrics(line(step=2, loss=0.25))
    folder.append_episodes([line(id="a", text="line one\nline two"), line(id="b", text="ü")])
    folder.append_episodes([])
    assert read_metrics(folder.path) == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}]
    assert [episode["text"] for episode in read_episodes(folder.path)] == ["line one\nline two", "ü"]
    assert (folder.path / "episodes.jsonl").read_bytes().count(b"\n") == 2


def test_a_number_that_is_not_finite_is_null_because_json_has_no_nan(folder: RunFolder) -> None:
    folder.append_metrics(line(loss=float("nan"), nested={"list": [float("inf"), 1.0]}))
    assert read_metrics(folder.path) == [{"loss": None, "nested": {"list": [None, 1.0]}}]
    folder.write_summary(line(after=float("nan")))
    assert json.loads((folder.path / "summary.json").read_text()) == {"after": None}


def test_the_summary_is_replaced_as_a_whole(folder: RunFolder) -> None:
    folder.write_summary(line(updates=1, old=True))
    folder.write_summary(line(updates=2))
    assert json.loads((folder.path / "summary.json").read_text()) == {"updates": 2}
    assert not list(folder.path.glob("*.tmp"))


def test_the_log_is_lines_with_times(folder: RunFolder) -> None:
    folder.log("started")
    folder.log("stopped")
    lines = (folder.path / "log.txt").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["started", "stopped"]


class TestWhoMayWrite:
    def test_a_folder_that_holds_a_run_is_not_overwritten(self, folder: RunFolder) -> None:
        folder.close()
        with pytest.raises(
            RunFolderError, match=r"already holds a run; add --resume .* or choose another folder"
        ):
            RunFolder.create(folder.path, "other")
        assert saved_config(folder.path).read_text() == CONFIG

    def test_a_folder_that_holds_something_else_is_not_used(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("precious")
        with pytest.raises(RunFolderError, match=r"not empty \(it holds thesis\.tex\)"):
            RunFolder.create(tmp_path, CONFIG)

    def test_a_creation_that_was_killed_can_be_repeated(self, tmp_path: Path) -> None:
        (tmp_path / ".lock").write_text("123")
        (tmp_path / "config.toml.tmp").write_text("[ru")
        RunFolder.create(tmp_path, CONFIG).close()
        assert saved_config(tmp_path).read_text() == CONFIG

    def test_only_a_run_can_be_opened_or_read(self, tmp_path: Path) -> None:
        for action in (RunFolder.open, read_metrics, read_episodes, saved_config):
            with pytest.raises(RunFolderError, match=r"holds no run \(config\.toml is missing\)"):
                action(tmp_path)

    def test_a_run_is_open_once_in_a_process(self, folder: RunFolder) -> None:
        with pytest.raises(RunFolderError, match="already open for writing in this process"):
            RunFolder.open(folder.path)
        folder.append_metrics(line(still="mine"))
        folder.close()
        folder.close()
        RunFolder.open(folder.path).close()

    def test_another_process_is_refused_and_told_who_writes(self, folder: RunFolder) -> None:
        refused = subprocess.run(
            [sys.executable, "-c", OPEN, str(folder.path)], capture_output=True, text=True, timeout=60
        )
        assert f"another process (id {os.getpid()}) is writing" in refused.stderr

    def test_a_closed_folder_takes_no_lines(self, folder: RunFolder) -> None:
        folder.close()
        with pytest.raises(RunFolderError, match="was closed"):
            folder.append_metrics(line(step=1))


OPEN = """
import sys
from pathlib import Path
from actfirst.runs.run_folder import RunFolder
RunFolder.open(Path(sys.argv[1]))
"""

WRITE_FOREVER = """
import sys
from pathlib import Path
from actfirst.runs.run_folder import RunFolder
from tests.runs.test_run_folder import line
folder = RunFolder.create(Path(sys.argv[1]), "")
for step in range(10_000_000):
    folder.append_metrics(line(step=step, text="x" * (step % 5000)))
    if step == 20:
        print("ready", flush=True)
"""


class TestResume:
    def test_rewinding_forgets_what_came_after_the_checkpoint(self, folder: RunFolder) -> None:
        folder.append_metrics(line(step=1))
        folder.append_episodes([line(id="a")])
        offsets = folder.offsets()
        folder.append_metrics(line(step=2))
        folder.append_episodes([line(id="b")])
        folder.close()

        resumed = RunFolder.open(folder.path)
        resumed.rewind(offsets)
        resumed.append_metrics(line(step=2, again=True))
        assert read_metrics(folder.path) == [{"step": 1}, {"step": 2, "again": True}]
        assert list(read_episodes(folder.path)) == [{"id": "a"}]

    def test_offsets_are_sizes_in_bytes(self, folder: RunFolder) -> None:
        files = ("metrics.jsonl", "episodes.jsonl", "responses.jsonl", "evaluation-episodes.jsonl")
        assert folder.offsets() == START == dict.fromkeys(files, 0)
        folder.append_metrics(line(a=1))
        written = len('{"a":1,"chain":"0123456789abcdef"}\n')
        assert folder.offsets() == {**START, "metrics.jsonl": written}

    def test_a_run_without_a_checkpoint_starts_over(self, folder: RunFolder) -> None:
        folder.append_metrics(line(step=1))
        folder.rewind(START)
        assert read_metrics(folder.path) == []

    def test_a_half_written_line_is_not_read_and_is_cut_on_opening(self, folder: RunFolder) -> None:
        folder.append_metrics(line(step=1))
        folder.close()
        path = folder.path / "metrics.jsonl"
        with path.open("a") as file:
            file.write('{"step": 2, "lo')
        assert read_metrics(folder.path) == [{"step": 1}]
        with RunFolder.open(folder.path) as resumed:
            resumed.append_metrics(line(step=2))
        assert read_metrics(folder.path) == [{"step": 1}, {"step": 2}]

    def test_a_half_written_line_longer_than_a_read_block_is_cut_too(self, folder: RunFolder) -> None:
        folder.append_metrics(line(step=1))
        folder.close()
        with (folder.path / "metrics.jsonl").open("a") as file:
            file.write("x" * 200_000)
        RunFolder.open(folder.path).close()
        assert (folder.path / "metrics.jsonl").read_text().count("\n") == 1
        assert read_metrics(folder.path) == [{"step": 1}]

    def test_after_sigkill_every_line_is_whole_and_the_lock_is_free(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE_FOREVER, str(run)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        try:
            assert writer.stdout.readline() == "ready\n"
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            writer.stdout.close()
        with RunFolder.open(run) as resumed:
            steps = [line["step"] for line in read_metrics(run)]
            assert steps == list(range(len(steps)))
            assert len(steps) > 20
            resumed.rewind(resumed.offsets())

    @pytest.mark.parametrize("damage", ["deleted", "shorter", "flipped", "swapped", "missing", "not JSON"])
    def test_a_log_that_is_damaged_behind_a_whole_checkpoint_is_cut_and_reported(
        self, folder: RunFolder, damage: str
    ) -> None:
        for step in range(1, 6):
            folder.append_metrics(line(step=step))
        folder.append_episodes([line(id="a")])
        offsets = folder.offsets()
        folder.append_metrics(line(step=6))
        folder.close()
        path = folder.path / "metrics.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        match damage:
            case "deleted":
                path.unlink()
            case "shorter":
                path.write_bytes(b"".join(lines[:3]))
            case "flipped":
                path.write_bytes(b"".join(lines).replace(b'"step":3', b'"step":8'))
            case "swapped":
                path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
            case "missing":
                path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
            case "not JSON":
                path.write_bytes(b"".join([*lines[:2], b"nonsense" + lines[2][8:], *lines[3:]]))
        left = path.read_bytes() if path.exists() else None
        with RunFolder.open(folder.path) as resumed:
            (said,) = resumed.rewind(offsets)
            assert said.startswith("metrics.jsonl ")
            assert {"deleted": "missing", "shorter": "lost its end"}.get(damage, "line 3") in said
            assert said in (folder.path / "log.txt").read_text()
            resumed.append_metrics(line(step=6, again=True))
        kept = {"deleted": 0, "shorter": 3}.get(damage, 2)
        assert [one["step"] for one in read_metrics(folder.path)] == [*range(1, kept + 1), 6]
        copies = [copy.read_bytes() for copy in folder.path.glob("metrics.jsonl.damaged-*")]
        assert copies == ([] if left is None else [left])
        with RunFolder.open(folder.path) as again:
            assert again.rewind(again.offsets()) == []  # the file is whole again

    def test_an_offset_inside_a_line_is_said(self, folder: RunFolder) -> None:
        folder.append_metrics(line(step=1))
        (said,) = folder.rewind({"metrics.jsonl": 3, "episodes.jsonl": 0})
        assert "0 bytes of the 3 that the checkpoint saw" in said

    @pytest.mark.parametrize("how", ["deleted", "written"])
    def test_a_log_that_somebody_else_changes_during_the_run_stops_it(
        self, folder: RunFolder, how: str
    ) -> None:
        folder.append_metrics(line(step=1))
        path = folder.path / "metrics.jsonl"
        path.unlink() if how == "deleted" else path.write_bytes(path.read_bytes() * 2)
        left = path.read_bytes() if path.exists() else b""
        with pytest.raises(
            RunFolderError, match=r"metrics\.jsonl was changed or deleted by somebody else.*--resume"
        ):
            folder.append_metrics(line(step=2))
        assert path.read_bytes() == left

    def test_a_run_of_an_older_version_without_checksums_goes_on_with_them(self, folder: RunFolder) -> None:
        path = folder.path / "metrics.jsonl"
        path.write_text('{"step":1}\n{"step":2}\n')
        offsets = folder.offsets()
        assert folder.rewind(offsets) == []
        folder.append_metrics(line(step=3))
        assert [one["step"] for one in read_metrics(folder.path)] == [1, 2, 3]
        path.write_text(path.read_text().replace('"step":2', '"step":9'))
        (said,) = folder.rewind(folder.offsets())
        assert "line 3" in said  # the first checksum covers what has none

    def test_offsets_of_other_files_are_refused(self, folder: RunFolder) -> None:
        with pytest.raises(RunFolderError, match=r"must be of metrics\.jsonl, episodes\.jsonl"):
            folder.rewind({"metrics.jsonl": 0})

    def test_a_damaged_line_is_named(self, folder: RunFolder) -> None:
        (folder.path / "metrics.jsonl").write_text('{"step": 1}\nnonsense\n')
        with pytest.raises(RunFolderError, match=r"line 2 of .*metrics\.jsonl is not JSON"):
            read_metrics(folder.path)


class TestFullDisk:
    def test_a_full_disk_is_one_clear_error(self, folder: RunFolder) -> None:
        """/dev/full answers every write as a full disk does."""
        (folder.path / "episodes.jsonl").symlink_to("/dev/full")
        with pytest.raises(
            RunFolderError, match=r"cannot write .*episodes\.jsonl: No space left on device.*--resume"
        ):
            folder.append_episodes([line(id="a")])
        (folder.path / "episodes.jsonl").unlink()

    def test_a_disk_that_fills_up_within_a_line_leaves_no_half_line(
        self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.append_metrics(line(step=1))
        real, calls = os.write, []

        def write_three_bytes_then_fail(handle: int, data: bytes) -> int:
            calls.append(data)
            if len(calls) > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, data[:3])

        with monkeypatch.context() as patch:
            patch.setattr(files.os, "write", write_three_bytes_then_fail)
            with pytest.raises(RunFolderError, match="No space left"):
                folder.append_metrics(line(step=2))
        assert len(calls) == 2
        folder.append_metrics(line(step=3))
        assert read_metrics(folder.path) == [{"step": 1}, {"step": 3}]

    def test_a_summary_that_cannot_be_written_leaves_the_old_one(
        self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.write_summary(line(updates=1))

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(files.os, "fsync", fail)
            with pytest.raises(RunFolderError, match=r"summary\.json: No space left"):
                folder.write_summary(line(updates=2))
        assert json.loads((folder.path / "summary.json").read_text()) == {"updates": 1}

    def test_a_place_that_is_no_folder_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(RunFolderError, match=r"cannot write .*file/run: Not a directory"):
            RunFolder.create(tmp_path / "file" / "run", CONFIG)
