"""From text to index terms, as the original's indexer does it: tokenizer, possessive, lower case, stop words, stem.

The same analysis serves products and queries.
"""

from __future__ import annotations

from functools import lru_cache

from actfirst.environments.webshop.search.porter import stem
from actfirst.environments.webshop.search.tokenizer import tokenize

_STOPPED = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these
they this to was will with
"""
STOP_WORDS = frozenset(_STOPPED.split())
_APOSTROPHES = "'\u2019\uff07"


def analyze(text: str) -> list[str]:
    """The terms of a text in order, repetitions included."""
    return [term for token in tokenize(text) if (term := normalize(token)) is not None]


@lru_cache(maxsize=500_000)
def normalize(token: str) -> str | None:
    """The term of a token; None for a stop word."""
    if token[-1] in "sS" and token[-2:-1] and token[-2] in _APOSTROPHES:
        token = token[:-2]
    token = _lower(token)
    if token in STOP_WORDS:
        return None
    if token.isascii() or max(token) <= "\uffff":
        return stem(token)
    # Lucene counts UTF-16 units, of which such a character has two.
    units = token.encode("utf-16-be", "surrogatepass")
    split = "".join(chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
    return stem(split).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _lower(token: str) -> str:
    if token.isascii():
        return token.lower()
    # Character by character: a capital I with dot becomes one letter, and a sigma is never a final one.
    return "".join("i" if character == "\u0130" else character.lower() for character in token)
