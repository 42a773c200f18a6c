"""References on disk: one JSON object a line, a header first, appended as they are made.

The header names the world, its fingerprint and its configuration in words; a file of anything else is refused, and
never touched. Every further line is an `Attempt`; the last line of a task counts. A build that knows of more tasks than
the header does appends a header of its own; the last one counts. Opening reads the lines of all tasks; a line is parsed
when its task is asked for.

Lines carry checksums (`runs/chain.py`), and a build ends by a header that says how many attempts are before it: a
changed, swapped or missing line is an error that names it, and a store without its end is not trained from. A line that
a kill left half-written is not read, and is cut when the store is opened for more. Stores of older versions, without
checksums, are read as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from actfirst import __version__
from actfirst.environments.base import World
from actfirst.errors import ReferenceStoreError
from actfirst.reading import Unreadable, parse_json, parse_object
from actfirst.records import Reference, Task
from actfirst.runs import files
from actfirst.runs.chain import Chain, ChainedFile
from actfirst.runs.lock import RunLock

FORMAT = "actfirst-references-2"
_ID = b'{"task_id":"'
_FORMAT = b'{"format"'  # how a header begins
_REFERENCE = b'"reference":{'  # JSON escapes quotes inside strings, so no text can look like this key

Configuration = Mapping[str, object]
"""The environment section of the recipe, so that a refusal can say what differs."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one task: a reference, or the reason why there is none. One line of a store.

    `tried` holds the keys of the sources that were asked, so that a resumed build does not ask them again.
    `candidates` counts their different action lists; `cut` the actions that shortening left out. `agreed` of
    `replays` repetitions of the reference led to its very transitions. `reason` is empty where there is a reference.
    """

    task_id: str
    split: str
    kind: str
    tried: tuple[str, ...]
    candidates: int = 0
    cut: int = 0
    replays: int = 0
    agreed: int = 0
    seconds: float = 0.0
    reason: str = ""
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """For what a store was made. `tasks` counts the tasks of each split, in the largest world of all builds, `attempts`
    the lines of attempts before this one."""

    format: str
    world: str
    fingerprint: str
    turn_limit: int
    tasks: dict[str, int]
    configuration: dict[str, object]
    actfirst: str
    attempts: int | None = None

    @classmethod
    def of(cls, world: World, configuration: Configuration) -> Self:
        return cls(
            format=FORMAT,
            world=world.name,
            fingerprint=world.fingerprint,
            turn_limit=world.turn_limit,
            tasks={split: len(world.tasks(split)) for split in world.splits()},
            # by way of JSON, so that it compares equal to what is read back
            configuration=parse_json(json.dumps(dict(configuration))),
            actfirst=__version__,
        )

    def with_tasks_of(self, other: Header) -> Header:
        """Of each split as many tasks as the larger of both counts: a recipe may ask for a part of a world."""
        splits = {**other.tasks, **self.tasks}
        tasks = {split: max(self.tasks.get(split, 0), other.tasks.get(split, 0)) for split in splits}
        return replace(self, tasks=tasks)


_HEADER = TypeAdapter(Header)
_ATTEMPT = TypeAdapter(Attempt)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: bytes
    covered: bool


class ReferenceStore:
    """All attempts of a file, by task; each is read when it is asked for. `ended`: not cut short, as far as it can
    say; `attempt_lines` may be more than there are tasks."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.header = header
        self.attempt_lines = 0
        self.ended = True
        self._number = 1
        self._lines: dict[str, _Line] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open a store whatever it was made for, to look at it; raises ReferenceStoreError where it is damaged."""
        texts, chain = _texts(path), Chain()
        first = next(texts, b"")
        store = cls(path, _read_header(path, first))
        chain.follow(first)
        for text in texts:
            if fault := chain.follow(text):
                raise _damaged(path, store._number + 1, fault)
            store._take(text, linked=chain.linked)
        return store

    @classmethod
    def open(cls, path: Path, world: World, configuration: Configuration | None = None) -> Self:
        """Open a store that was made for `world` as it is configured now."""
        _check(path, Header.of(world, configuration or {}))
        store = cls.read(path)
        if not store.ended:
            raise ReferenceStoreError(
                f"{path} has no end: a build was killed, or its last lines were lost; `actfirst references build` "
                "adds what is missing"
            )
        return store

    def _take(self, text: bytes, *, linked: bool) -> None:
        self._number += 1
        if text.startswith(_FORMAT):
            self.header = _read_header(self.path, text)
            self.ended = self.header.attempts in (None, self.attempt_lines)
        else:
            task_id, covered = _glance(self.path, self._number, text)
            self._lines[task_id] = _Line(self._number, text, covered)
            self.attempt_lines += 1
            self.ended = not linked

    def __len__(self) -> int:
        """How many tasks have a reference."""
        return sum(line.covered for line in self._lines.values())

    def task_ids(self) -> list[str]:
        return list(self._lines)

    def covers(self, task: Task) -> bool:
        """Whether the task has a reference; answered without reading it."""
        return task.id in self._lines and self._lines[task.id].covered

    def get(self, task: Task) -> Reference | None:
        attempt = self.attempt(task.id) if self.covers(task) else None
        return attempt.reference if attempt else None

    def attempt(self, task_id: str) -> Attempt | None:
        """The latest attempt at a task; None if there was none."""
        line = self._lines.get(task_id)
        return None if line is None else _parse(self.path, line.number, line.text)

    def attempts(self) -> Iterator[Attempt]:
        """The latest attempt at every task, one at a time."""
        for line in self._lines.values():
            yield _parse(self.path, line.number, line.text)

    def added(self, text: bytes) -> None:
        """Told by the writer of every line that it appends."""
        self._take(text, linked=True)


class ReferenceWriter:
    """Appends attempts to a store, new or existing: whole lines, one at a time, one writer at a time."""

    def __init__(self, path: Path, world: World, configuration: Configuration | None = None) -> None:
        self._path = path
        now = Header.of(world, configuration or {})
        with files.writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock.take_file(path)
        try:
            self._file, self.store = self._begin(now)
            more = now.with_tasks_of(self.store.header)
            if more.tasks != self.store.header.tasks:
                self._append_header(more)
        except BaseException:
            self._lock.release()
            raise

    def add(self, attempt: Attempt) -> None:
        self._append(_ATTEMPT.dump_python(attempt, mode="json", exclude_defaults=True))

    def close(self) -> None:
        """Say that nothing is missing, and let others write. Calling it twice is allowed."""
        try:
            if self._lock.held and not self.store.ended:
                self._append_header(self.store.header)
        finally:
            self._lock.release()

    def _begin(self, now: Header) -> tuple[ChainedFile, ReferenceStore]:
        """Open the file for more. It is looked at only now that it is locked: until then another build may write."""
        size = files.size(self._path)
        if size:
            _check(self._path, now)  # before anything is cut: the file may be somebody's notes
        whole = files.whole_size(self._path)
        if size > whole:
            files.cut(self._path, whole)
        file = ChainedFile.at_end(self._path)
        if not whole:
            file.append(files.json_line(_HEADER.dump_python(replace(now, attempts=0), mode="json")))
        return file, ReferenceStore.read(self._path)

    def _append_header(self, header: Header) -> None:
        full = replace(header, attempts=self.store.attempt_lines)
        self._append(_HEADER.dump_python(full, mode="json"))

    def _append(self, record: Mapping[str, object]) -> None:
        self.store.added(self._file.append(files.json_line(record)))


def _check(path: Path, now: Header) -> None:
    """Refuse a file that was not made for the world as it is configured now, saying what differs."""
    made = _read_header(path, next(_texts(path), b""))
    if (made.world, made.fingerprint) == (now.world, now.fingerprint):
        return
    raise ReferenceStoreError(
        f"{path} was made for {made.world} ({made.fingerprint}), but this run plays {now.world} "
        f"({now.fingerprint}), so its transitions would not replay: {_differences(made, now)}; build references "
        "for this configuration with `actfirst references build`"
    )


def _differences(made: Header, now: Header) -> str:
    """The settings that explain two fingerprints, in words."""
    if made.world != now.world:
        return f"environment.name is {made.world} there and {now.world} here"
    keys = [key for key in made.configuration if key in now.configuration]
    said = [
        f"environment.{key} is {json.dumps(made.configuration[key])} there and "
        f"{json.dumps(now.configuration[key])} here"
        for key in keys
        if made.configuration[key] != now.configuration[key]
    ]
    counts = [
        f"split {split} had {made.tasks[split]} tasks there and has {now.tasks[split]} here"
        for split in made.tasks
        if split in now.tasks and made.tasks[split] != now.tasks[split]
    ]
    if said or counts:
        return ", ".join((*said, *counts))
    version = (
        "" if made.actfirst == now.actfirst else f" (made by actfirst {made.actfirst}, this is {now.actfirst})"
    )
    return f"its settings are the same, but the files or the simulator behind them have changed{version}"


def _damaged(path: Path, number: int, fault: str) -> ReferenceStoreError:
    return ReferenceStoreError(
        f"{path}, line {number} {fault}. Restore the file, or keep its first {number - 1} lines and run "
        "`actfirst references build` again: it adds what is missing"
    )


def _texts(path: Path) -> Iterator[bytes]:
    """The whole lines of a file. The first is given even without its end."""
    if not path.is_file():
        raise ReferenceStoreError(f"no reference file at {path}; `actfirst references build` makes one")
    try:
        with path.open("rb") as file:
            yield file.readline()
            yield from (line for line in file if line.endswith(b"\n"))
    except OSError as error:
        raise ReferenceStoreError(f"cannot read {path}: {error.strerror or error}") from error


def _read_header(path: Path, line: bytes) -> Header:
    remedy = "build it again with `actfirst references build`"
    try:
        said = parse_object(line)
        if str(said.get("format", "")).startswith("actfirst-references-"):
            if said["format"] != FORMAT:
                raise ReferenceStoreError(
                    f"{path} has the format {said['format']}, this version reads {FORMAT}; {remedy}"
                )
            return _HEADER.validate_python(said)
    except ValueError:
        pass
    raise ReferenceStoreError(f"{path} is not a reference file: its first line is not a header; {remedy}")


def _glance(path: Path, number: int, line: bytes) -> tuple[str, bool]:
    """The task of a line and whether it has a reference, without parsing all of it where we wrote it ourselves."""
    end = line.find(b'"', len(_ID))
    if line.startswith(_ID) and end > 0 and b"\\" not in line[:end] and line.endswith(b"}\n"):
        return line[len(_ID) : end].decode(errors="replace"), _REFERENCE in line
    attempt = _parse(path, number, line)
    return attempt.task_id, attempt.reference is not None


def _parse(path: Path, number: int, line: bytes) -> Attempt:
    try:
        return _ATTEMPT.validate_python(parse_object(line))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the line"
        fault = f"at {where}: {error.errors()[0]['msg']}"
    except Unreadable as error:
        fault = f"({error})"
    raise ReferenceStoreError(
        f"{path}, line {number} is broken {fault}; delete the line and run `actfirst references build` again: it "
        "adds what is missing"
    )
