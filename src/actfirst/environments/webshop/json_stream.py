"""Reads JSON files that are too large for memory, one entry of the outermost list or object at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from actfirst.errors import EnvironmentFailure
from actfirst.reading import Unreadable, next_value

_CHUNK = 1 << 22
_LONGEST_ENTRY = 1 << 28
_BETWEEN = " \t\r\n,"


def stream_list(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        reader = _Reader(path, file)
        reader.expect("[")
        while not reader.ends("]"):
            yield reader.value()


def stream_object(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(encoding="utf-8") as file:
        reader = _Reader(path, file)
        reader.expect("{")
        while not reader.ends("}"):
            key = reader.value()
            reader.expect(":")
            yield key, reader.value()


class _Reader:
    """A window over the file that moves forward as entries are taken out of it."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._text = ""
        self._at = 0
        self._size = _CHUNK

    def expect(self, mark: str) -> None:
        if self._next(" \t\r\n\ufeff") != mark:
            raise self._broken(f"expected {mark!r}")
        self._at += 1

    def ends(self, mark: str) -> bool:
        return self._next(_BETWEEN) == mark

    def value(self) -> Any:
        self._next(_BETWEEN)
        while True:
            try:
                value, end = next_value(self._text, self._at)
            except Unreadable as error:
                raise self._broken(str(error)) from error
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > _LONGEST_ENTRY or not self._more():
                    raise self._broken(error.msg) from error
                self._size *= 2  # an entry longer than what is read at once must not be parsed again and again
                continue
            # A number at the edge of the window may go on behind it; every other value has an end of its own.
            if end == len(self._text) and self._more():
                continue
            self._at = end
            self._size = _CHUNK
            return value

    def _next(self, skipped: str) -> str:
        """Moves to the next character that is not one of `skipped`."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in skipped:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise self._broken("the file ends too early")

    def _more(self) -> bool:
        try:
            chunk = self._file.read(self._size)
        except UnicodeDecodeError as error:
            raise self._broken(f"no UTF-8: {error.reason}") from error
        self._text = self._text[self._at :] + chunk
        self._at = 0
        return bool(chunk)

    def _broken(self, problem: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"{self._path} is no complete JSON file ({problem}); download it again and compare its size"
        )
