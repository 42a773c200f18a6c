"""References on disk: one JSON object a line, a header first, appended as they are made.

The header names the world and its fingerprint; a file of anything else is refused, and never touched. A line that a
kill left half-written is cut when the store is opened for more; a broken line anywhere else is an error that names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from actfirst.envs.base import World
from actfirst.errors import ReferenceStoreError
from actfirst.records import Reference, Task
from actfirst.tracking import files

FORMAT = "actfirst-references-1"
_REFERENCE = TypeAdapter(Reference)


class ReferenceStore:
    """All references of a file, by task."""

    def __init__(self, references: Mapping[str, Reference]) -> None:
        self._references = references

    def __len__(self) -> int:
        return len(self._references)

    def get(self, task: Task) -> Reference | None:
        return self._references.get(task.id)

    @classmethod
    def open(cls, path: Path, world: World) -> Self:
        """Read a store that was made for `world` as it is configured now."""
        lines = _lines(path)
        _check_header(path, next(lines, b""), world)
        references: dict[str, Reference] = {}
        for number, line in enumerate(lines, start=2):
            reference = _parse(path, number, line)
            references[reference.task_id] = reference
        return cls(references)


class ReferenceWriter:
    """Appends references to a store, new or existing: whole lines, one at a time."""

    def __init__(self, path: Path, world: World) -> None:
        self.done: set[str] = set()
        self._path = path
        with files.writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            size, whole = files.size(path), files.whole_size(path)
        if size:
            # Before anything is cut: the file may be somebody's notes.
            _check_header(path, next(_lines(path), b""), world)
        if size > whole:
            files.cut(path, whole)
        if whole:
            self.done = set(ReferenceStore.open(path, world)._references)
        else:
            self._append({"format": FORMAT, "world": world.name, "fingerprint": world.fingerprint})

    def add(self, reference: Reference) -> None:
        self._append(_REFERENCE.dump_python(reference, mode="json"))
        self.done.add(reference.task_id)

    def _append(self, record: Mapping[str, object]) -> None:
        files.append_whole(self._path, files.json_line(record))


def _lines(path: Path) -> Iterator[bytes]:
    try:
        if not path.is_file():
            raise ReferenceStoreError(f"no reference file at {path}; `actfirst references build` makes one")
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise ReferenceStoreError(f"cannot read {path}: {error.strerror or error}; mend the cause") from error


def _check_header(path: Path, line: bytes, world: World) -> None:
    try:
        header = json.loads(line)
        said = header["format"], header["world"], header["fingerprint"]
    except (ValueError, KeyError, TypeError) as error:
        raise ReferenceStoreError(
            f"{path} is not a reference file: its first line is no header; build it again with "
            "`actfirst references build`"
        ) from error
    if said != (FORMAT, world.name, world.fingerprint):
        raise ReferenceStoreError(
            f"{path} was made for {said[1]} {said[2]} ({said[0]}), but this run plays {world.name} "
            f"{world.fingerprint} ({FORMAT}): its transitions would not replay; build references for this "
            "configuration with `actfirst references build`"
        )


def _parse(path: Path, number: int, line: bytes) -> Reference:
    try:
        return _REFERENCE.validate_json(line)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the line"
        raise ReferenceStoreError(
            f"{path}, line {number} is broken at {where}: {error.errors()[0]['msg']}; delete the line and run "
            "`actfirst references build` again: it adds what is missing"
        ) from error
