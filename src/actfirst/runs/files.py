"""Files that survive a kill and a full disk: whole lines, whole replacements, one clear error.

A number that is not finite is written as null, because JSON has no NaN.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from actfirst.errors import RunFolderError
from actfirst.reading import Unreadable, clean, parse_object


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a failure to write into one message that names the path, the cause and the remedy."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            f"cannot write {path}: {error.strerror or error}; fix the cause and try again"
        ) from error


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file so that a reader finds the old one or the new one, never a part."""
    write_atomically(path, json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a text file by way of a temporary one beside it."""
    temporary = path.with_name(temporary_name(path.name))
    with writing(path):
        with temporary.open("w", encoding="utf-8") as file:
            file.write(clean(text))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_name(name: str) -> str:
    """What `write_atomically` calls a file that is not complete yet."""
    return f"{name}.tmp"


def json_line(record: Mapping[str, object]) -> str:
    """One record as one line."""
    return clean(json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n")


def append_whole(path: Path, text: str, expected: int | None = None) -> int:
    """Append all of `text` or nothing: a full disk must not leave half a line behind. Returns the size before; where it
    is not the `expected` one, nothing is written."""
    data = text.encode()
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            before = os.fstat(handle).st_size
            if expected is not None and before != expected:
                return before
            try:
                while data:
                    data = data[os.write(handle, data) :]
            except OSError:
                with suppress(OSError):
                    os.ftruncate(handle, before)
                raise
            return before
        finally:
            os.close(handle)


def synced_size(path: Path) -> int:
    """The size of a file once everything in it is on the disk; the file is created if need be."""
    with writing(path), path.open("ab") as file:
        os.fsync(file.fileno())
        return file.seek(0, os.SEEK_END)


def size(path: Path) -> int:
    """The size of a file; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def whole_size(path: Path) -> int:
    """The size of a file up to the end of its last whole line; 0 if there is none."""
    return _after_last_newline(path, size(path))


def _after_last_newline(path: Path, end: int) -> int:
    """Where the last line end before byte `end` is over; 0 if there is none. Reads from the end in blocks."""
    block = 1 << 16
    if not path.exists():
        return 0
    with path.open("rb") as file:
        while end > 0:
            start = max(0, end - block)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def last_line(path: Path) -> bytes:
    """The last whole line of a file, with its end; empty if there is none."""
    end = whole_size(path)
    if not end:
        return b""
    start = _after_last_newline(path, end - 1)
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def line_ends_at(path: Path, offset: int) -> bool:
    """Whether `offset` is the start of the file or follows the end of one of its lines."""
    if offset == 0:
        return True
    with path.open("rb") as file:
        file.seek(offset - 1)
        return file.read(1) == b"\n"


def cut(path: Path, length: int) -> None:
    """Shorten a file to `length` bytes."""
    with writing(path):
        os.truncate(path, length)


def set_aside(path: Path) -> str:
    """Copy a damaged file beside itself; says where, "" where there is none."""
    if not path.exists():
        return ""
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    free = next(name for name in names if not name.exists())
    with writing(free):
        shutil.copyfile(path, free)
    return f"a copy is in {free.name}, "


def read_json_lines(path: Path) -> Iterator[dict[str, object]]:
    """The records of a file. A last line without its end is being written, or was cut by a kill: not read."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = parse_object(line)
            except Unreadable as error:
                raise RunFolderError(
                    f"line {number} of {path} is not JSON that can be read: {error}"
                ) from error
            record.pop("chain", None)  # the checksum of `chain.py`
            yield record


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
