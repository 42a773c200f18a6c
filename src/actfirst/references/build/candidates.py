"""What may become a reference: lists of actions for one task, and where they come from.

Paper, appendix "Teacher Training and Reference Construction": candidates are public demonstrations, model-generated
rollouts and oracle solutions. A source only proposes. Whether a list works is found out by replaying it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from actfirst.records import Task


@dataclass(frozen=True, slots=True)
class Candidate:
    """Actions that somebody took, or would take, in a task. They may be wrong, too long, or worded differently."""

    actions: tuple[str, ...]
    source: str


class CandidateSource(Protocol):
    """Proposes candidates. `key` identifies what it would propose: with an equal key it is not asked twice."""

    @property
    def key(self) -> str: ...

    def candidates(self, task: Task, instruction: str) -> Iterator[Candidate]:
        """Every proposal for the task, whose instruction is `instruction`; raises ActfirstError if it cannot."""
        ...
