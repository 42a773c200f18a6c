"""Which replayed candidate becomes the reference of a task.

Paper, appendix "Reference Trajectories": "selection prioritizes higher score and then fewer actions"; in ALFWorld the
shortest successful one, which is the same rule, because a score there is 100 or 0.
"""

from __future__ import annotations

from actfirst.records import Reference


def worthy(reference: Reference) -> bool:
    """Whether a replay can serve as a reference at all: it has to lead somewhere."""
    return bool(reference.steps) and reference.score > 0


def rank(reference: Reference) -> tuple[float, int]:
    """Smaller is better."""
    return -reference.score, len(reference.steps)
