"""The folder of one run: the only thing that evaluation, measurement and reports read.

    config.toml      the resolved configuration
    metrics.jsonl    one JSON object per line: batches, updates, evaluations; append-only (fields: `lines.py`)
    episodes.jsonl   one JSON object per line and episode, append-only (fields: `episodes.py`)
    responses.jsonl  trained responses token by token, a bounded number, append-only (fields: `responses.py`)
    evaluation-episodes.jsonl  episodes of evaluations, a bounded number, append-only (fields: `episodes.py`)
    utilisation.jsonl  how busy the machine was, one sample a line (fields: `utilisation.py`)
    checkpoints/     written by `actfirst.learning`
    log.txt          what happened, with times
    summary.json     the result, replaced as a whole

Every line of the append-only files ends with a checksum (`chain.py`). A checkpoint stores `offsets()`; after a kill,
`rewind` cuts the append-only files back to them, so that a resumed run repeats no line and loses none. A file that was
damaged or deleted does not stop a run whose checkpoint is whole: `rewind` keeps it up to the damage, and says so. What
takes time to make is written `later`, and `offsets` waits for it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from actfirst.errors import RunFolderError
from actfirst.runs import files
from actfirst.runs.background import BackgroundWriter
from actfirst.runs.chain import ChainedFile, follow, whole_lines
from actfirst.runs.lock import RunLock
from actfirst.runs.record import Record
from actfirst.runs.responses import within

CONFIG = "config.toml"
METRICS = "metrics.jsonl"
EPISODES = "episodes.jsonl"
CHECKPOINTS = "checkpoints"
LOG = "log.txt"
SUMMARY = "summary.json"
UTILISATION = "utilisation.jsonl"
RESPONSES = "responses.jsonl"
EVALUATED = "evaluation-episodes.jsonl"
START: Final[Mapping[str, int]] = {METRICS: 0, EPISODES: 0, RESPONSES: 0, EVALUATED: 0}
"""The offsets of a run that has no checkpoint yet."""


class RunFolder:
    """A run folder that this process alone may write. Close it, or use it as a context manager."""

    def __init__(self, path: Path, lock: RunLock) -> None:
        """Called by `create` and `open` only."""
        self.path = path
        self.checkpoints = path / CHECKPOINTS
        self._lock = lock
        self._writer = BackgroundWriter()
        self._logs: dict[str, ChainedFile] = {}
        with files.writing(self.checkpoints):
            self.checkpoints.mkdir(exist_ok=True)
            files.sync_folder(path)
            files.sync_folder(path.resolve().parent)

    @classmethod
    def create(cls, path: Path, config_toml: str) -> Self:
        """Begin a new run. Refuses a folder that holds anything already."""
        with files.writing(path):
            path.mkdir(parents=True, exist_ok=True)
        lock = RunLock.take(path)
        try:
            _refuse_contents(path)
            files.write_atomically(path / CONFIG, config_toml)
            return cls(path, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path, config_toml: str | None = None) -> Self:
        """Continue an existing run, under another configuration if one is given. A line that a kill left half-written
        is cut."""
        _refuse_no_run(path)
        lock = RunLock.take(path)
        try:
            for name in (*START, UTILISATION):
                whole = files.whole_size(path / name)
                if files.size(path / name) > whole:
                    files.cut(path / name, whole)
            if config_toml is not None:
                files.write_atomically(path / CONFIG, config_toml)
            return cls(path, lock)
        except BaseException:
            lock.release()
            raise

    def append_metrics(self, line: Record) -> None:
        """Add one line to metrics.jsonl."""
        self._append(METRICS, files.json_line(line.to_json()))

    def append_episodes(self, lines: Iterable[Record]) -> None:
        """Add one line per episode to episodes.jsonl."""
        self._append(EPISODES, "".join(files.json_line(line.to_json()) for line in lines))

    def append_share(self, name: str, lines: Iterable[Record], most: int, shares: int) -> None:
        """Add lines to RESPONSES or EVALUATED as far as they fit into one of so many equal shares of what is left of
        `most` bytes."""
        room = (most - files.size(self.path / name)) // max(1, shares)
        self._append(name, "".join(within(lines, room)))

    def later(self, work: Callable[[], None]) -> None:
        """Do some of the appending in a thread of its own, in order. What it fails with is raised by the next call, or
        by `offsets` and `write_summary`, which wait for it."""
        self._refuse_closed()
        self._writer.submit(work)

    def append_utilisation(self, line: Record) -> None:
        """Add one line to utilisation.jsonl."""
        self._append(UTILISATION, files.json_line(line.to_json()))

    @property
    def later_seconds(self) -> float:
        """Processor time of what was done `later`."""
        return self._writer.processor_seconds

    def log(self, text: str) -> None:
        """Add a line with the time to log.txt."""
        self._refuse_closed()
        with _resumable():
            files.append_whole(self.path / LOG, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def write_summary(self, summary: Record) -> None:
        """Replace summary.json as a whole, once everything else is written."""
        self._refuse_closed()
        self._writer.flush()
        with _resumable():
            files.write_json(self.path / SUMMARY, summary.to_json())

    def offsets(self) -> dict[str, int]:
        """How long the append-only files are, once everything in them is on the disk."""
        self._writer.flush()
        with _resumable():
            offsets = {name: files.synced_size(self.path / name) for name in START}
            with files.writing(self.path):
                files.sync_folder(self.path)  # the files may be new
            return offsets

    def rewind(self, offsets: Mapping[str, int]) -> list[str]:
        """Cut the append-only files back to what `offsets()` said, or to START; a file that an older version did not
        know begins again. Where one is damaged before that, it is cut there, and a copy of it stays beside it. Returns
        what was found, which is also in the log."""
        self._refuse_closed()
        self._writer.flush()
        offsets = {RESPONSES: 0, EVALUATED: 0, **offsets}
        if set(offsets) != set(START):
            raise RunFolderError(
                f"offsets of {self.path} must be of {', '.join(START)}, not {', '.join(offsets)}"
            )
        found = []
        for name, offset in offsets.items():
            damage, whole = damage_before(self.path / name, offset)
            if damage:
                kept = files.set_aside(self.path / name)
                found.append(f"{name} {damage}; {kept}it goes on after its whole lines")
            if files.size(self.path / name) > whole:
                files.cut(self.path / name, whole)
        self._logs.clear()
        for text in found:
            self.log(text)
        return found

    def is_bare(self) -> bool:
        """Whether nothing was written down of what a run is for: no metrics and no checkpoint."""
        return not files.size(self.path / METRICS) and not any(self.checkpoints.glob("step-*"))

    def remove(self) -> None:
        """Remove the folder of a run that never began."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Let other processes write. Calling it twice is allowed."""
        self._writer.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, name: str, text: str) -> None:
        self._refuse_closed()
        if text:
            with _resumable():
                if name not in self._logs:
                    self._logs[name] = ChainedFile.at_end(self.path / name)
                self._logs[name].append(text)

    def _refuse_closed(self) -> None:
        if not self._lock.held:
            raise RunFolderError(f"{self.path} was closed; open it again to write to it")


@contextmanager
def _resumable() -> Iterator[None]:
    """Adds to a failure to write that nothing is lost."""
    try:
        yield
    except RunFolderError as error:
        raise RunFolderError(f"{error} (the run keeps what it has and continues with --resume)") from error


def damage_before(path: Path, offset: int) -> tuple[str, int]:
    """What is wrong with a file before the byte up to which a checkpoint saw it ("" for nothing), and how many bytes
    of that are whole lines."""
    if offset and not path.exists():
        return f"is missing, with the {offset} bytes that the checkpoint saw", 0
    whole, fault = follow(whole_lines(path, offset))
    if fault:
        return f"is damaged: {fault}", whole
    return (
        "" if whole == offset else f"has lost its end: {whole} bytes of the {offset} that the checkpoint saw"
    ), whole


def saved_config(path: Path) -> Path:
    """The file of a run folder that holds the run's configuration."""
    _refuse_no_run(path)
    return path / CONFIG


def read_lines(path: Path, name: str) -> Iterator[dict[str, object]]:
    """The lines of one of the files of a run folder, one by one, also while the run is writing; none where an older
    version did not write it."""
    _refuse_no_run(path)
    return files.read_json_lines(path / name)


def read_metrics(path: Path) -> list[dict[str, object]]:
    return list(read_lines(path, METRICS))


def read_episodes(path: Path) -> Iterator[dict[str, object]]:
    return read_lines(path, EPISODES)


def _refuse_no_run(path: Path) -> None:
    if not (path / CONFIG).is_file():
        raise RunFolderError(f"{path} holds no run ({CONFIG} is missing); `actfirst train` starts one")


def _refuse_contents(path: Path) -> None:
    if (path / CONFIG).exists():
        raise RunFolderError(
            f"{path} already holds a run; add --resume to continue it, or choose another folder with --run"
        )
    # A kill while the run was being created may have left the lock and a half-written config.
    leftovers = {RunLock.NAME, files.temporary_name(CONFIG)}
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in leftovers)
    if foreign:
        raise RunFolderError(f"{path} is not empty (it holds {foreign[0]}); choose another folder with --run")
