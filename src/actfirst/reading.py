"""The one way in for text, JSON and TOML that somebody else wrote: files, answers of servers, lines of other programs.

What comes out can be handled without further thought: it is UTF-8, of bounded size and depth, every number fits a float
(so there is no NaN, no Infinity, and no integer of a thousand digits), no key stands twice in an object, and every text
went through `clean`. Anything else is an `Unreadable`, which says the cause; the caller adds the file and the remedy.
`Unreadable` is a ValueError. The linter forbids `json.loads` and `tomllib` everywhere else.
"""

from __future__ import annotations

import bz2
import json
import lzma
import math
import re
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

MOST_BYTES = 1 << 30
"""Of a file or a text, after unpacking."""
MOST_TOML = 1 << 18
"""Characters: what people write is short, and the parser is slow on what is made to be slow."""
MOST_DEPTH = 64

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_NO_UTF8 = re.compile("[\ud800-\udfff]")
_ESCAPED_NO_TEXT = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")
_LARGE_NUMBER = re.compile(r"[0-9]{300}|[eE]\+?[0-9]{3}")
# A string without its end takes all the rest: what is left of it must not be searched again.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]+")
_LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_DEPTH}}}""")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
_BLOCK = 1 << 16


class Unreadable(ValueError):
    """Data that is not what it should be; says why."""


def clean(text: str) -> str:
    """The text gate. Half of a surrogate pair, which no file and no tokenizer takes, and NUL become U+FFFD.

    All other characters stay as they are, control characters too: a model sees what the environment says. They are
    made visible where a person sees them (`terminal/visible.py`).
    """
    return text if text.isascii() and "\0" not in text else _NO_TEXT.sub("\ufffd", text)


def cleaned(value: Any) -> Any:
    """A JSON value whose texts all went through the gate."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(key): cleaned(item) for key, item in value.items()}
        case list():
            return [cleaned(item) for item in value]
    return value


def decoded(data: bytes) -> str:
    """The text of some bytes; a mark of byte order at their beginning is no part of it."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"no UTF-8 at byte {error.start}") from None


def parse_json(data: bytes | str, most: int = MOST_BYTES) -> Any:
    """The value of a JSON text."""
    if len(data) > most:
        raise Unreadable(f"{len(data)} bytes, more than the {most} that are read")
    text = decoded(data) if isinstance(data, bytes) else data
    check_depth(text)
    try:
        value = (_EXACT if _LARGE_NUMBER.search(text) else _QUICK).decode(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"no JSON: {error}") from None
    return cleaned(value) if _needs_cleaning(text) else value


def parse_object(data: bytes | str, most: int = MOST_BYTES) -> dict[str, Any]:
    """The JSON object of a text; another value is refused."""
    return _an_object(parse_json(data, most))


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """The value of a JSON file."""
    return parse_json(read_bytes(path, most), most)


def read_object(path: Path, most: int = MOST_BYTES) -> dict[str, Any]:
    """The JSON object of a file."""
    return _an_object(read_json(path, most))


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """All of a file, or Unreadable: missing, no file, too large."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise Unreadable(getattr(error, "strerror", None) or str(error)) from error
    if len(data) > most:
        raise Unreadable(f"more than the {most} bytes that are read")
    return data


def unpacked(path: Path, most: int = MOST_BYTES) -> bytes:
    """What is in a file, plain or compressed by xz, gzip or bzip2. It is never larger in memory than `most`."""
    data = read_bytes(path, most)
    packed = next((make for magic, make in _UNPACKERS.items() if data.startswith(magic)), None)
    return data if packed is None else b"".join(_pieces(data, packed, most))


def unpacked_gzip(data: bytes, most: int) -> bytes:
    """The content of a gzip or zlib stream."""
    return b"".join(_pieces(data, _gzip, most))


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text."""
    if len(text) > MOST_TOML:
        raise Unreadable(f"{len(text)} characters, more than the {MOST_TOML} that are read")
    if not text.isascii() and (found := _NO_UTF8.search(text)):
        raise Unreadable(f"character {found.start()} is half of a surrogate pair")
    if _LONG_KEY.search(text):  # the parser's work grows with the square of its parts
        raise Unreadable(f"a key of more than {MOST_DEPTH} parts")
    try:
        tables = tomllib.loads(text)
        _check_numbers(tables, MOST_DEPTH)
    except RecursionError:
        raise Unreadable(f"nested deeper than {MOST_DEPTH} levels") from None
    except (ValueError, OverflowError) as error:
        raise Unreadable(str(error)) from None
    return tables


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    return parse_toml(decoded(read_bytes(path, MOST_TOML)))


def next_value(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at a place of a text, and where it ends: for catalogues that are read in parts.

    They are large files of other programs, so of two equal keys the last counts, and NaN is passed on. A
    JSONDecodeError may mean that the value goes on behind the text; an Unreadable means that it is refused.
    """
    try:
        value, end = _TOLERANT.raw_decode(text, start)
    except RecursionError:
        raise Unreadable(f"nested deeper than {MOST_DEPTH} levels") from None
    entry = text[start:end]
    check_depth(entry)
    return (cleaned(value) if _needs_cleaning(entry) else value), end


def check_depth(text: str) -> None:
    """Refuse a JSON text that is nested too deeply, before it is parsed. Brackets inside strings do not count."""
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text))
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MOST_DEPTH:
        raise Unreadable(f"nested deeper than {MOST_DEPTH} levels")


def _needs_cleaning(text: str) -> bool:
    return bool(_ESCAPED_NO_TEXT.search(text)) or not (text.isascii() or _NO_UTF8.search(text) is None)


def _an_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{_kind(value)} where an object was expected")
    return value


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Unreadable(f"the key {twice[:80]!r} stands twice in one object")
    return table


def _constant(name: str) -> float:
    raise Unreadable(f"{name} is no number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Unreadable(f"the number {digits[:20]}... is too large")
    return value


def _whole_number(digits: str) -> int:
    _finite(digits)
    return int(digits)


_QUICK = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_constant)
_EXACT = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_constant, parse_float=_finite, parse_int=_whole_number
)
_TOLERANT = json.JSONDecoder(parse_float=_finite, parse_int=_whole_number)


def _check_numbers(value: object, levels: int) -> None:
    """TOML may nest by dotted keys and hold whole numbers of any size. Its `inf` and `nan` are numbers of TOML."""
    if levels < 0:
        raise Unreadable(f"nested deeper than {MOST_DEPTH} levels")
    match value:
        case int():
            if abs(value) >> 1023:
                raise Unreadable("a number that is too large")
        case dict() | list():
            for item in value.values() if isinstance(value, dict) else value:
                _check_numbers(item, levels - 1)


class _Unpacker(Protocol):
    """What the three libraries have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Gzip:
    """zlib keeps what it did not read; the other two do that themselves."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=47)  # gzip or zlib, by the header

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _gzip() -> _Unpacker:
    return _Gzip()


_UNPACKERS: Mapping[bytes, Callable[[], _Unpacker]] = {
    b"\xfd7zXZ": lzma.LZMADecompressor,
    b"\x1f\x8b": _gzip,
    b"BZh": bz2.BZ2Decompressor,
}


def _pieces(data: bytes, make: Callable[[], _Unpacker], most: int) -> Iterator[bytes]:
    """Unpack in pieces, so that a small file which unpacks to a huge one is noticed before it fills the memory."""
    size = 0
    try:
        while data:
            unpacker = make()
            while not unpacker.eof:
                piece = unpacker.decompress(data, _BLOCK)
                if not piece and not data and not unpacker.eof:
                    raise Unreadable("the compressed data ends too early")
                data = b""
                size += len(piece)
                if size > most:
                    raise Unreadable(f"unpacks to more than the {most} bytes that are read")
                yield piece
            data = unpacker.unused_data.lstrip(b"\0")  # several streams in one file; padding between them
    except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise error if isinstance(error, Unreadable) else Unreadable(f"cannot be unpacked: {error}") from error
