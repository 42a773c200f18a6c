"""Rewords the expert's reasoning so that a few layers can follow it.

A tiny model finds an answer well when the thing asked about stands right before it, and copies well in the order
of its prompt. So what has been seen and where the agent is become questions with answers, and places are gone
through in the order of the admissible actions, up to the first that is new. What is decided stays the expert's.
"""

from __future__ import annotations

import re

_NAME = r"[a-z]+ \d+"
_HERE = re.compile(rf"I am at ({_NAME})")
_PLACES = re.compile(
    rf"Places: ((?:{_NAME} \w+(?:, )?)+)\."
    rf"(?: The first new place is {_NAME}\.| (I am at {_NAME}, which is new and closed\.))?"
)
_QUESTIONS = (
    (re.compile(r"I have not seen a (\w+)\."), r"Have I seen a \1? No."),
    (re.compile(rf"I have seen (\w+) (\d+) at ({_NAME})\."), r"Have I seen a \1? Yes, \1 \2 at \3."),
    (re.compile(rf"I am not at ({_NAME}) now\."), r"Am I at \1? No."),
    (re.compile(rf"I am at ({_NAME}) now, but it is closed\."), r"Am I at \1? Yes, but it is closed."),
    (re.compile(rf"I am at ({_NAME}) now\."), r"Am I at \1? Yes."),
)


def reword(reasoning: str) -> str:
    """The same thoughts in the words of the pocket models."""
    for pattern, question in _QUESTIONS:
        reasoning = pattern.sub(question, reasoning)
    here = _HERE.search(reasoning)
    return _PLACES.sub(lambda match: _up_to_first_new(match, here[1] if here else ""), reasoning)


def _up_to_first_new(match: re.Match[str], here: str) -> str:
    if match[2]:  # it is closed and the agent stands before it: nothing else has to be considered
        return match[2]
    listed: list[str] = []
    for entry in match[1].split(", "):
        place, _, mark = entry.rpartition(" ")
        if place == here:
            continue
        listed.append(entry)
        if mark == "new":
            break
    return f"Places: {', '.join(listed)}."
