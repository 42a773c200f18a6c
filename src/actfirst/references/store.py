"""References on disk: one JSON object a line, a header first, appended as they are made.

The header names the world and its fingerprint; a store made for another configuration is refused. A line that a kill
left half-written is cut when the store is opened for more; a broken line anywhere else is an error that names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Self

from pydantic import TypeAdapter, ValidationError

from actfirst.envs.base import World
from actfirst.errors import ReferenceStoreError
from actfirst.records import Reference, Task

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
    """Appends references to a store, new or existing; every written line is on the disk."""

    def __init__(self, path: Path, world: World) -> None:
        self.done: set[str] = set()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size:
            self._keep_whole_lines(path)
            self.done = set(ReferenceStore.open(path, world)._references)
            self._file: IO[bytes] = path.open("ab")
        else:
            self._file = path.open("wb")
            self._append({"format": FORMAT, "world": world.name, "fingerprint": world.fingerprint})

    def add(self, reference: Reference) -> None:
        self._append(_REFERENCE.dump_python(reference, mode="json"))
        self.done.add(reference.task_id)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, record: object) -> None:
        self._file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    @staticmethod
    def _keep_whole_lines(path: Path) -> None:
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with path.open("r+b") as file:
                file.truncate(whole)


def _lines(path: Path) -> Iterator[bytes]:
    if not path.is_file():
        raise ReferenceStoreError(f"no reference file at {path}; `actfirst references build` makes one")
    with path.open("rb") as file:
        yield from file


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
