"""Splits text into words as Lucene 8's standard tokenizer does (UAX #29 word breaks plus emoji sequences).

`word_break.txt` gives each code point a class letter; the rules below are regular expressions over class
letters. Text of ASCII characters, which is nearly all of a catalogue, goes through one expression over the
characters themselves. Lower-casing, stop words and stemming are the analyzer's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files

MAX_TOKEN = 255
"""A longer token is cut: Lucene looks at no more UTF-16 units than this at a time."""

# In ASCII a token is a run of letters, digits and underscores (not of underscores alone). A dot or apostrophe
# joins two letters or two digits, a colon two letters, a comma or semicolon two digits.
_ASCII = re.compile(
    r"_*[A-Za-z0-9]\w*(?:(?:(?<=[0-9])[,;.'](?=[0-9])|(?<=[A-Za-z])[:.'](?=[A-Za-z]))\w+)*", re.ASCII
)
_CHUNK = re.compile(r"[^\x00-\x20]+")

_EXT = "[XZFTVYWw]*"  # what UAX #29 attaches to any character before it (WB4)
_JOINED = (
    f"(?:B{_EXT}S{_EXT}|B{_EXT}Q{_EXT}B{_EXT}"
    f"|N{_EXT}(?:[DMS]{_EXT}N{_EXT})*"
    f"|[ABJ]{_EXT}(?:[LMS]{_EXT}[ABJ]{_EXT})*)+"
)
_CORE = f"(?:(?:K{_EXT})+|{_JOINED})"
_WORD = f"(?:U{_EXT})*{_CORE}(?:(?:U{_EXT})+{_CORE})*(?:U{_EXT})*"
_PLAIN = "[XZVYWw]*"  # as _EXT, without the two presentation selectors
_PICTURE = f"(?:Z*G{_PLAIN}H{_PLAIN}|Z*[EGJ]{_PLAIN}F?|H{_PLAIN})"
_RULES = tuple(
    re.compile(rule)
    for rule in (
        _WORD,
        "[CY][CXZFTVYWw]*",
        f"I{_EXT}",
        f"{_PICTURE}(?:(?<=Z){_PICTURE}|Z+{_PICTURE})*",
        f"Z*[EGJ]{_PLAIN}FW+w",
        f"R{_EXT}R{_EXT}",
        f"[PN]{_PLAIN}F?V{_PLAIN}",
    )
)


def tokenize(text: str) -> list[str]:
    if text.isascii():
        tokens: list[str] = _ASCII.findall(text)
        if not tokens or max(map(len, tokens)) <= MAX_TOKEN:
            return tokens
    # No token spans a control character or a space, so each stretch between them can be split by itself.
    return [token for chunk in _CHUNK.findall(text) for token in _chunk(chunk)]


def _chunk(chunk: str) -> list[str] | tuple[str, ...]:
    if chunk.isascii() and len(chunk) <= MAX_TOKEN:
        tokens: list[str] = _ASCII.findall(chunk)
        return tokens
    return _general(chunk)


@lru_cache(maxsize=100_000)
def _general(chunk: str) -> tuple[str, ...]:
    return tuple(_longest_matches(chunk))


def _longest_matches(chunk: str) -> Iterator[str]:
    table = _classes()
    classes = "".join([table.get(ord(character), "O") for character in chunk])
    start = 0
    while start < len(chunk):
        limit = _window(chunk, start)
        found = (rule.match(classes, start, limit) for rule in _RULES)
        end = max((match.end() for match in found if match), default=start)
        if end > start:
            yield chunk[start:end]
        start = max(end, start + 1)


def _window(chunk: str, start: int) -> int:
    """Where the part that Lucene would look at from `start` ends."""
    end = min(start + MAX_TOKEN, len(chunk))
    units = end - start + sum(character > "\uffff" for character in chunk[start:end])
    while units > MAX_TOKEN:
        end -= 1
        units -= 2 if chunk[end] > "\uffff" else 1
    return end


@cache
def _classes() -> dict[int, str]:
    """Code point to class letter; 118,000 entries, made when text that is not ASCII is first met."""
    table: dict[int, str] = {}
    text = (files("actfirst.environments.webshop.search") / "word_break.txt").read_text(encoding="ascii")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        letter, _, ranges = line.partition(": ")
        for entry in ranges.split():
            low, _, high = entry.partition("-")
            table.update(dict.fromkeys(range(int(low, 16), int(high or low, 16) + 1), letter))
    return table
