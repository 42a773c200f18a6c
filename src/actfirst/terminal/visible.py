"""Text of models, servers and files, made safe to show: a terminal obeys some characters instead of showing them.

A sequence that begins with ESC can move the cursor, retitle the window or write to the clipboard; marks of writing
direction can make a text look like another one. `visible` shows each such character as a symbol or by its number.
`say` does that to plain lines, and `terminal/console.py` to everything that rich draws; nothing else prints.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with a sign in the place of every control character except tab and newline."""
    return text if text.isprintable() else _CONTROLS.sub(_sign, text.replace("\r\n", "\n"))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<{code:02x}>"


def say(*words: object, end: str = "\n", to: TextIO | None = None) -> None:
    """Print a line on stdout, or on `to`."""
    print(visible(" ".join(map(str, words))), end=end, file=to or sys.stdout)
