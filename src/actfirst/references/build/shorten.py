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
    search = _Search(tuple(actions), works, budget, clock)
    guesses = {likely(actions, precedent) for precedent in precedents}
    guessed = any(search.leap(guess) for guess in sorted(guesses, key=len))
    # After a leap, large chunks have gone already.
    size = 1 if guessed else max(1, len(actions) // 2)
    while True:
        removed = search.sweep(size)
        if search.spent:
            return Shortened(search.best, search.replays, False)
        if size == 1 and not removed:
            return Shortened(search.best, search.replays, True)
        # Single actions are swept again until nothing moves: leaving one out may make another one superfluous.
        size = max(1, min(size // 2, len(search.best) // 2))


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


class _Search:
    def __init__(
        self,
        actions: tuple[str, ...],
        works: Callable[[tuple[str, ...]], bool],
        budget: Budget,
        clock: Callable[[], float],
    ) -> None:
        self.best = actions
        self.replays = 0
        self._works = works
        self._budget = budget
        self._clock = clock
        self._started = clock()
        self._failed: set[tuple[str, ...]] = set()

    @property
    def spent(self) -> bool:
        return self.replays >= self._budget.replays or self._clock() - self._started >= self._budget.seconds

    def leap(self, actions: tuple[str, ...]) -> bool:
        """Take a shorter list at once, if it works."""
        if len(actions) >= len(self.best) or self.spent or not self._try(actions):
            return False
        self.best = actions
        return True

    def sweep(self, size: int) -> bool:
        """Try to leave out each chunk of `size`, the last first: what follows success can most often go."""
        before = len(self.best)
        end = len(self.best)
        while end > 0 and not self.spent:
            start = max(0, end - size)
            shorter = self.best[:start] + self.best[end:]
            if self._try(shorter):
                self.best = shorter
            end = start
        return len(self.best) < before

    def _try(self, actions: tuple[str, ...]) -> bool:
        if not actions or actions in self._failed:
            return False
        self.replays += 1
        if self._works(actions):
            return True
        self._failed.add(actions)
        return False
