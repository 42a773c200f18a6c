"""ScienceWorld's texts before they are compared: parts of them have no order.

Paper, appendix "Transition Consistency Checks". Readings of the paper that its sentences leave open:
- A `(containing ...)` expression is nested when it holds another one. The innermost ones are sorted, whatever
  other parentheses their items carry (`a book (Emma) titled Emma`); those around them keep their order.
- The full stop that ends an enumeration after ` is: ` belongs to the line, not to the item that happens to
  come last. ScienceWorld writes several (`a white pillow..`) when an item ends with one of its own.
"""

from __future__ import annotations

import re

from actfirst.environments.normalize import normalized_lines

_SEPARATOR = re.compile(r"[(),]")
_CLAUSE = re.compile(r"(?:which|that)\b")
# Possessive quantifiers: a missing closing parenthesis costs one scan, never backtracking.
_INNERMOST_CONTAINING = re.compile(r"\(containing ((?:[^()]++|\((?!containing )[^()]*+\))*+)\)")
_IS = " is: "


def normalize_scienceworld(text: str) -> str:
    """`normalize`, with lines sorted and with the object enumerations on each line sorted."""
    return "\n".join(sorted(_sort_enumerations(line) for line in normalized_lines(text)))


def split_enumeration(text: str) -> list[str]:
    """The items of an enumeration: commas inside parentheses separate nothing, and a clause that starts with
    `which` or `that` stays with the item before it."""
    items: list[str] = []
    for piece in _split_at_outer_commas(text):
        if items and _CLAUSE.match(piece):
            items[-1] = f"{items[-1]}, {piece}"
        else:
            items.append(piece)
    return items


def _split_at_outer_commas(text: str) -> list[str]:
    pieces: list[str] = []
    depth = start = 0
    for match in _SEPARATOR.finditer(text):
        mark = match.group()
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth = max(depth - 1, 0)
        elif depth == 0:
            pieces.append(text[start : match.start()].strip())
            start = match.end()
    pieces.append(text[start:].strip())
    return pieces


def _sort_enumerations(line: str) -> str:
    # Inner enumerations first, so that the items of the outer one are compared in their final form.
    line = _INNERMOST_CONTAINING.sub(_sort_contents, line)
    head, separator, rest = line.rpartition(_IS)
    if not separator:
        return line
    items = sorted(item.rstrip(". ") for item in split_enumeration(rest))
    stop = "." if rest.endswith(".") else ""
    return head + separator + ", ".join(items).rstrip() + stop


def _sort_contents(match: re.Match[str]) -> str:
    return f"(containing {', '.join(sorted(split_enumeration(match.group(1))))})"
