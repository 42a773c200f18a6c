"""Makes bad inputs of good ones: bytes that are changed anywhere, and JSON values of which a part is something else."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

_WORDS = (
    b"[" * 200,
    b"{",
    b"}",
    b"]",
    b'"',
    b"\\",
    b"\\ud83d",
    b"\\u0000",
    b"\xff",
    b"\xed\xa0\xbd",
    b"\0",
    b"\n",
    b"\r",
    b",",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1" + b"0" * 400,
    b"null",
    b"true",
    b"-1",
    b"0.5",
    b'"a":',
    b"9" * 5000,
    b"=",
    b".",
    b"\x1b[2J",
    b"<action>",
    b"</action>",
    b"<think>",
    b"</think>",
    b"Action:",
    b"(",
    b")",
    b"click[",
    b"search[",
    b"[SEP]",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"//",
    b"../",
    b"#",
    b"'''",
    b'"""',
    b"\x1f\x8b",
    b"BZh9",
    b"\xfd7zXZ\x00",
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    2**70,
    10**300,
    0.5,
    -0.0,
    1e308,
    -1e-320,
    "",
    "a",
    "\ud83d",
    "\0",
    "1",
    "nan",
    "x" * 3000,
    [],
    {},
    [None],
    [[]],
    {"": None},
    [1, "a"],
    "\x1b]52;c;x\x07",
    "javascript:1",
    "../..",
)
_RAW = ("NaN", "Infinity", "1e999", "-1" + "0" * 400, "[" * 100 + "]" * 100)


def mutations(seeds: list[bytes], draw: random.Random) -> Iterator[bytes]:
    """Without end."""
    parsed = [value for seed in seeds if (value := _value(seed)) is not None]
    while True:
        if parsed and draw.random() < 0.5:
            yield _restructured(draw.choice(parsed), draw)
        else:
            yield _rewritten(draw.choice(seeds), draw)


def _value(seed: bytes) -> Any:
    try:
        return json.loads(seed)
    except ValueError:
        return None


def _rewritten(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        place = draw.randrange(len(changed) + 1)
        match draw.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << draw.randrange(8)
            case 1:
                del changed[place : place + draw.choice((1, 1, 2, 10, 100))]
            case 2:
                changed[place:place] = draw.choice(_WORDS)
            case 3:
                start = draw.randrange(len(changed) + 1)
                changed[place:place] = changed[start : start + draw.choice((1, 5, 50))]
            case 4:
                changed[place : place + draw.choice((1, 4, 12))] = draw.choice(_WORDS)
            case _:
                changed = changed[:place] if draw.random() < 0.3 else changed
    return bytes(changed)


def _restructured(value: Any, draw: random.Random) -> bytes:
    copy = json.loads(json.dumps(value))
    for _ in range(draw.choice((1, 1, 2, 4))):
        copy = _with_another_part(copy, draw)
    text = json.dumps(copy, ensure_ascii=draw.random() < 0.5)
    if draw.random() < 0.1:
        text = text.replace("null", draw.choice(_RAW), 1)
    return text.encode("utf-8", "surrogatepass") + (b"\n" if draw.random() < 0.5 else b"")


def _with_another_part(value: Any, draw: random.Random) -> Any:
    """The value with one part changed, on a way that is chosen step by step."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.15:
        return deepcopy(draw.choice(_VALUES))
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw.choice(keys)
    match draw.randrange(10):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[draw.choice(("", "a", "type", "\ud83d", "x" * 300))] = deepcopy(value[key])
        case 1:
            value.append(deepcopy(value[key]))
        case _:
            value[key] = _with_another_part(value[key], draw)
    return value
