"""Reads a student's output: the action field, and how far a response has come.

Implements the parsing side of the paper's appendix "Thinking Budget". Whether an action is valid is not
decided here. Tags count only when written exactly as the prompts ask for them.
"""

from __future__ import annotations

import re
from enum import StrEnum

THINK, END_THINK = "<think>", "</think>"
ACTION, END_ACTION = "<action>", "</action>"

# A field that opens again before it closes was not well formed: the inner one is taken. This also covers a
# model that repeats the `<action>` which the budgeted decoder has just inserted.
_FIELD = re.compile(r"<action>((?:(?!<action>).)*?)</action>", re.DOTALL)


class Reached(StrEnum):
    """How far a possibly unfinished response has come."""

    REASONING = "reasoning"
    REASONED = "reasoned"
    ACTING = "acting"
    ACTED = "acted"


def extract_action(text: str) -> str | None:
    """The first closed action field after the reasoning, stripped; None if there is none or it is empty.

    Without `</think>` the whole text is searched: fast actions have no reasoning, and a response that ended
    on its own may have left its reasoning open.
    """
    _, end, answer = text.partition(END_THINK)
    field = _FIELD.search(answer if end else text)
    return (field.group(1).strip() or None) if field else None


def reached_by(text: str) -> Reached:
    """How far the response has come. An action mentioned inside unfinished reasoning is not yet an action."""
    before, end, after = text.partition(END_THINK)
    answer = after if end else before.partition(THINK)[0]
    if _FIELD.search(answer):
        return Reached.ACTED
    if ACTION in answer:
        return Reached.ACTING
    return Reached.REASONED if end else Reached.REASONING
