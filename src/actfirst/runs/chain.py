"""Line files that show when they were damaged: every line ends with a checksum of itself and of all lines before it.

    {"type":"update", ... ,"chain":"9f86d081884c7d65"}

The checksum is 8 bytes of BLAKE2b over the checksum of the line before and the line up to its own. A changed, swapped
or missing line is found at that place; what is cut from the end is known to who kept the length (a checkpoint) or the
count (a reference store). Lines of older files, which have none, count in the checksum of the first line that has one.
It is a guard against damage, not against somebody who means to forge a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Self

from actfirst.errors import RunFolderError
from actfirst.reading import Unreadable, parse_json
from actfirst.runs import files

KEY = "chain"
_END = re.compile(rb',?"chain":"([0-9a-f]{16})"\}\n\Z')
ADDED = len(b',"chain":"0123456789abcdef"')
"""Bytes that a checksum adds to a line."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first line of a file that is not as it was written."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.number} {self.reason}"


class Chain:
    """The checksum of the lines so far. `linked` once one of them carried it."""

    def __init__(self, state: str = "", *, linked: bool = False) -> None:
        self.state = state
        self.linked = linked

    def add(self, line: bytes) -> bytes:
        """A JSON object of one line, with its checksum."""
        body = line.removesuffix(b"\n").removesuffix(b"}")
        self.state, self.linked = _link(self.state, body), True
        comma = b"" if body == b"{" else b","
        return body + comma + b'"%b":"%b"}\n' % (KEY.encode(), self.state.encode())

    def follow(self, line: bytes) -> str:
        """Take a whole line of a file; why it cannot be the one that was written here, "" if it can."""
        end = checksum(line)
        if end is None:
            if self.linked:
                return "has no checksum, though lines before it have: it was changed or put there later"
            self.state = _link(self.state, line[:-1])
            return "" if _is_json(line) else "is not JSON"
        self.state, self.linked = _link(self.state, line[: end.start()]), True
        if self.state.encode() == end[1]:
            return ""
        return (
            "is not the one that was written there: it was changed, or lines before it are missing or swapped"
        )


class ChainedFile:
    """Appends lines with checksums to a file that nobody else writes."""

    def __init__(self, path: Path, size: int, chain: Chain) -> None:
        self.path = path
        self._size = size
        self._chain = chain

    @classmethod
    def at_end(cls, path: Path) -> Self:
        """Go on after the last line of a file, new or existing."""
        last = files.last_line(path)
        end = checksum(last)
        chain = Chain(end[1].decode(), linked=True) if end else Chain()
        if last and not end:
            for line in whole_lines(path):
                chain.follow(line)
        return cls(path, files.size(path), chain)

    def append(self, text: str) -> bytes:
        """Add whole lines, each a JSON object; all of them or none. Returns them as they were written."""
        chain = Chain(self._chain.state, linked=self._chain.linked)
        data = b"".join(map(chain.add, text.encode().splitlines(keepends=True)))
        found = files.append_whole(self.path, data.decode(), self._size)
        if found != self._size:
            raise RunFolderError(
                f"{self.path} was changed or deleted by somebody else while it was being written ({found} bytes "
                f"instead of {self._size}); nothing was added to it"
            )
        self._size, self._chain = self._size + len(data), chain
        return data


def whole_lines(path: Path, length: int | None = None) -> Iterator[bytes]:
    """The lines of a file, of its first `length` bytes. One without its end is being written, or was cut: not given."""
    if not path.exists():
        return
    with path.open("rb") as file:
        read = 0
        for line in file:
            read += len(line)
            if not line.endswith(b"\n") or (length is not None and read > length):
                return
            yield line


def follow(lines: Iterable[bytes]) -> tuple[int, Fault | None]:
    """How many bytes of a file's lines are as they were written, and the first line that is not."""
    chain, offset = Chain(), 0
    for number, line in enumerate(lines, start=1):
        if reason := chain.follow(line):
            return offset, Fault(number, reason)
        offset += len(line)
    return offset, None


def checksum(line: bytes) -> re.Match[bytes] | None:
    """The checksum at the end of a line, None if it has none."""
    return _END.search(line, max(0, len(line) - ADDED - 2))


def _link(state: str, body: bytes) -> str:
    return blake2b(state.encode() + body, digest_size=8).hexdigest()


def _is_json(line: bytes) -> bool:
    try:
        parse_json(line)
    except Unreadable:
        return False
    return True
