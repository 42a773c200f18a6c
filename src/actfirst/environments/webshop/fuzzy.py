"""How alike two short texts are, from 0 to 100, as WebShop's reward measures it.

This is the token-set ratio of thefuzz 0.19 with difflib underneath, which is what the original runs on: later
versions and faster libraries measure edit distance instead, and decide some comparisons differently. Rounding is
to the nearest integer (halves to the even one), and a match means more than 85.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

MATCH = 85

_NO_WORD = re.compile(r"\W")
_LATIN_1 = dict.fromkeys(range(128, 256))


def alike(first: str, second: str) -> bool:
    return token_set_ratio(first, second) > MATCH


@lru_cache(maxsize=65_536)
def token_set_ratio(first: str, second: str) -> int:
    """The best ratio among: common words, common words plus those of one text, plus those of the other."""
    words_1, words_2 = _words(first), _words(second)
    if not words_1 or not words_2:
        return 0
    common = " ".join(sorted(words_1 & words_2))
    all_1 = f"{common} {' '.join(sorted(words_1 - words_2))}".strip()
    all_2 = f"{common} {' '.join(sorted(words_2 - words_1))}".strip()
    return max(_ratio(common, all_1), _ratio(common, all_2), _ratio(all_1, all_2))


def _words(text: str) -> frozenset[str]:
    # Latin-1 letters beyond ASCII are dropped, not split at; letters of other scripts stay. So it was.
    return frozenset(_NO_WORD.sub(" ", text.translate(_LATIN_1)).lower().split())


def _ratio(first: str, second: str) -> int:
    if first == second:
        return 100
    if not first or not second:
        return 0
    return round(100 * SequenceMatcher(None, first, second).ratio())
