"""Unproductive repetition, by the paper's definition (appendix "Rollout Quality").

A valid action is an unproductive repetition if the same pair of state and action was executed validly before, no new
observation has appeared since the end of that pair's most recent valid execution, and the action brings no new one
either. States are equal if the environment says so (equal sets of facts); what a prompt showed of the history does not
matter. Success ends an episode, so that no two states before an action differ in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actfirst.environments.normalize import collapse, fold
from actfirst.records import Observation


@dataclass(frozen=True, slots=True)
class Step:
    """One executed turn: the state it began in ("" where the environment cannot tell), and what it led to."""

    state: str
    action: str
    valid: bool
    after: str


def repetitions(first: str, steps: Sequence[Step]) -> list[int] | None:
    """The numbers (from 1) of the turns that repeat; `first` is o_1. None where states are not known."""
    if any(not step.state for step in steps):
        return None
    seen = {_plain(first)}
    latest: dict[tuple[str, str], int] = {}
    newest = 0  # the turn that brought the latest new observation
    found: list[int] = []
    for number, step in enumerate(steps, start=1):
        after = _plain(step.after)
        new = after not in seen
        seen.add(after)
        if step.valid:
            pair = (step.state, _plain(step.action))
            before = latest.get(pair)
            if before is not None and newest <= before and not new:
                found.append(number)
            latest[pair] = number
        if new:
            newest = number
    return found


def exactly_valid(action: str, observation: Observation) -> bool:
    """Validity for this measurement: the action, stripped, is an entry of the list as it stands."""
    return action.strip() in observation.admissible


def share_with_repetition(episodes: Iterable[Sequence[int] | None]) -> float | None:
    """Percent of episodes with at least one repetition; None if for one of them it is not known."""
    flags = [None if found is None else bool(found) for found in episodes]
    if not flags or any(flag is None for flag in flags):
        return None
    return 100.0 * sum(bool(flag) for flag in flags) / len(flags)


def _plain(text: str) -> str:
    """NFKC, case folding, and every run of whitespace one space."""
    return collapse(fold(text))
