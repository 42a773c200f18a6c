"""Shortens a list of actions while it still works: delta debugging, from large chunks to single actions.

Paper, appendix "Reference Trajectories": "candidates are shortened while preserving successful replay".
What "works" means is the caller's business; each question costs a replay, so questions and seconds are limited. The
result is the shortest list found within the limits, 1-minimal if they were not reached.

Tasks of one kind are alike, so a precedent saves most questions: what was left out of another task's solution is left
out here too, and if the rest works, shortening goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from actfirst.environments.solving import Budget


@dataclass(frozen=True, slots=True)
class Shortened:
    """A list that works, the questions it took, and whether no single action can be left out any more."""

    actions: tuple[str, ...]
    replays: int = 0
    minimal: bool = False


@dataclass(frozen=True, slots=True)
class Precedent:
    """How the solution of a similar task was shortened; `short` is a part of `long`."""

    long: tuple[str, ...]
    short: tuple[str, ...]


def shorten(
    actions: Sequence[str],
    works: Callable[[tuple[str, ...]], bool],
    budget: Budget,
    precedents: Sequence[Precedent] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Shortened:
    """Leave out what can be left out of `actions`, which work. No list is asked about twice."""
    best, replays, started = tuple(actions), 0, clock()
    failed: set[tuple[str, ...]] = {()}

    def spent() -> bool:
        return replays >= budget.replays or clock() - started >= budget.seconds

    def accept(shorter: tuple[str, ...]) -> bool:
        nonlocal best, replays
        if spent() or shorter in failed:
            return False
        replays += 1
        if works(shorter):
            best = shorter
            return True
        failed.add(shorter)
        return False

    guesses = {likely(actions, precedent) for precedent in precedents}
    guessed = any(len(guess) < len(best) and accept(guess) for guess in sorted(guesses, key=len))
    # After a guess that works, large chunks have gone already.
    size = 1 if guessed else max(1, len(actions) // 2)
    while True:
        before = end = len(best)
        while end > 0:  # the last chunk first: what follows success can most often go
            start = max(0, end - size)
            accept(best[:start] + best[end:])
            end = start
        if spent():
            return Shortened(best, replays, False)
        if size == 1 and len(best) == before:
            return Shortened(best, replays, True)
        # Single actions are swept again until nothing moves: leaving one out may make another one superfluous.
        size = max(1, min(size // 2, len(best) // 2))


def likely(actions: Sequence[str], precedent: Precedent) -> tuple[str, ...]:
    """What would remain of `actions` if they were shortened as the precedent was: lists are laid side by side by their
    verbs, and an action stays if its counterpart stayed."""
    rest = iter(precedent.short)
    wanted = next(rest, None)
    stayed: list[bool] = []
    for action in precedent.long:
        stayed.append(action == wanted)
        if stayed[-1]:
            wanted = next(rest, None)
    lined_up = SequenceMatcher(None, _verbs(precedent.long), _verbs(actions), autojunk=False)
    kept = [
        block.b + place
        for block in lined_up.get_matching_blocks()
        for place in range(block.size)
        if stayed[block.a + place]
    ]
    return tuple(actions[place] for place in kept)


def _verbs(actions: Sequence[str]) -> list[str]:
    return [action.partition(" ")[0] for action in actions]
