"""Reads ALFWorld's task sentences: what kind of task, about which object, and where it belongs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from actfirst.errors import TaskError


@dataclass(frozen=True, slots=True)
class Instruction:
    """A task in terms. `place` is the destination's kind, or the kind of lamp where the task is `look`."""

    kind: str
    item: str
    place: str


_PATTERNS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("clean", r"put a clean (\w+) in (\w+)\."),
        ("clean", r"clean some (\w+) and put it in (\w+)\."),
        ("heat", r"put a hot (\w+) in (\w+)\."),
        ("heat", r"heat some (\w+) and put it in (\w+)\."),
        ("cool", r"put a cool (\w+) in (\w+)\."),
        ("cool", r"cool some (\w+) and put it in (\w+)\."),
        ("pick2", r"put two (\w+) in (\w+)\."),
        ("pick2", r"find two (\w+) and put them in (\w+)\."),
        ("look", r"look at (\w+) under the (\w+)\."),
        ("look", r"examine the (\w+) with the (\w+)\."),
        ("pick", r"put a (\w+) in (\w+)\."),
        ("pick", r"put some (\w+) on (\w+)\."),
    )
)


def read_instruction(text: str) -> Instruction:
    """Understand a task sentence; raises TaskError for one that ALFWorld does not use."""
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(text.strip())
        if match:
            return Instruction(kind, match.group(1), match.group(2))
    raise TaskError(f"not a task sentence of ALFWorld: {text!r}")
