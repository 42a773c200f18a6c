"""What came of one task when references were built: a reference, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.records import Reference


@dataclass(frozen=True, slots=True)
class Attempt:
    """One line of a reference store.

    `tried` holds the keys of the sources that were asked, so that a resumed build does not ask them again.
    `candidates` counts their different action lists; `cut` the actions that shortening left out. `agreed` of
    `replays` repetitions of the reference led to its very transitions. `reason` is empty where there is a reference.
    """

    task_id: str
    split: str
    kind: str
    tried: tuple[str, ...]
    candidates: int = 0
    cut: int = 0
    replays: int = 0
    agreed: int = 0
    seconds: float = 0.0
    reason: str = ""
    reference: Reference | None = None
