"""Text normalisation before two observations are compared (paper, appendix "Transition Consistency Checks").

This is what every benchmark shares. Nothing here decides whether a transition is aligned, and no prompt is ever built
from these texts.

Readings of the paper that its sentences leave open:
- A line ends at LF, CR LF or CR. Any other vertical space (form feed, U+2028) is whitespace within a line.
- Folding is repeated until it changes nothing: a handful of Greek letters with iota subscript need a second
  pass, and only then is normalising twice the same as normalising once.
"""

from __future__ import annotations

import re
import unicodedata

_LINE_END = re.compile(r"\r\n?|\n")


def fold(text: str) -> str:
    """NFKC and case folding. Idempotent."""
    if text.isascii():
        return text.lower()
    while (folded := unicodedata.normalize("NFKC", text).casefold()) != text:
        text = folded
    return text


def collapse(line: str) -> str:
    """Every run of whitespace becomes one space; none is left at either end."""
    return " ".join(line.split())


def normalized_lines(text: str) -> list[str]:
    """The nonempty lines of a text, folded and collapsed, in their order."""
    # Folding comes first: NFKC turns some characters into spaces, which then have to be collapsed.
    return [line for raw in _LINE_END.split(fold(text)) if (line := collapse(raw))]


def normalize(text: str) -> str:
    """The form in which texts of all benchmarks are compared."""
    return "\n".join(normalized_lines(text))
