"""An index of a file of JSON lines that may be large and may be growing: one short row per line, and where it begins.

Each call of `advance` reads at most 128 kB of what is new, so that whoever asks is answered soon. Memory holds
rows and offsets, never lines. A file that a resumed run has cut is read again, as another `generation`.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from actfirst.errors import RunFolderError
from actfirst.reading import parse_object
from actfirst.runs.files import size

BUDGET = 1 << 17
"""Bytes that one `advance` reads, give or take one line."""
LONGEST = 32 << 20
"""A line of more bytes is never held: its row says so."""
_TAIL = 64

Row = list[object]
Summarise = Callable[[Mapping[str, Any]], Row]


class LineIndex:
    """Rows of one file, by line number from 0. Threads may share it."""

    def __init__(self, path: Path, summarise: Summarise, longest: int = LONGEST) -> None:
        self.path = path
        self.bytes_read = 0
        self._summarise = summarise
        self._longest = longest
        self._lock = Lock()
        self._generation = 0
        self._clear()

    def advance(self, budget: int = BUDGET) -> int:
        """Read on; returns how many bytes are still to be read."""
        with self._lock:
            length = size(self.path)
            if length < self._end or not self._unchanged():
                self._clear()
            return length - self._read(length, budget) if length > self._end else 0

    def rows(self, start: int, limit: int) -> tuple[int, int, list[bytes]]:
        """The generation, how many rows there are, and up to `limit` of them as JSON."""
        with self._lock:
            return self._generation, len(self._rows), self._rows[start : start + limit]

    def line(self, row: int) -> bytes:
        """One line as it stands in the file, read when it is asked for."""
        with self._lock:
            if not 0 <= row < len(self._rows):
                raise RunFolderError(f"{self.path.name} has no line {row} (yet): {len(self._rows)} are read")
            start = self._starts[row]
            length = (self._starts[row + 1] if row + 1 < len(self._starts) else self._end) - start
        if length > self._longest:
            raise RunFolderError(f"line {row} of {self.path.name} has {length} bytes, too many to show")
        with self.path.open("rb") as file:
            file.seek(start)
            self.bytes_read += length
            return file.read(length)

    def _clear(self) -> None:
        self._generation += 1
        self._rows: list[bytes] = []
        self._starts = array("q")
        self._end = 0
        self._tail = b""

    def _unchanged(self) -> bool:
        if not self._tail:
            return True
        with self.path.open("rb") as file:
            file.seek(self._end - len(self._tail))
            return file.read(len(self._tail)) == self._tail

    def _read(self, length: int, budget: int) -> int:
        stop = min(length, self._end + budget)
        with self.path.open("rb") as file:
            file.seek(self._end)
            while self._end < stop:
                line = file.readline(self._longest)
                whole = len(line)
                while line and not line.endswith(b"\n") and whole >= self._longest:
                    # Too long to hold: look for its end.
                    line = file.readline(self._longest)
                    whole += len(line)
                self.bytes_read += whole
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._starts.append(self._end)
                self._rows.append(self._row(line, whole))
                self._end += whole
                self._tail = line[-_TAIL:]
        return self._end

    def _row(self, line: bytes, whole: int) -> bytes:
        try:
            if whole > len(line):
                raise ValueError(f"the line has {whole} bytes, too many to show")
            row = self._summarise(parse_object(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return json.dumps({"unreadable": f"{type(error).__name__}: {error}"[:300]}).encode()
        return json.dumps(row, separators=(",", ":"), default=str).encode()
