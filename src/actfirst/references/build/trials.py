"""Which candidate of a task becomes its reference, and what is left of it: replay, select, shorten.

Two ways. Where an environment is quick, every candidate is replayed in it. Where the world has a rehearsal, candidates
are rehearsed first; the most promising ones are shortened by rehearsals, and only what is left is worded as it is
admissible and replayed in the environment. Whatever is chosen was replayed in the environment.

Which of several equally good candidates is the shortest is known only after they are shortened. So the shortest few of
them (`_TIED`) are shortened, beginning with the shortest, out of the one budget that a task has.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actfirst.environments.base import Environment, World
from actfirst.environments.registry import Kind
from actfirst.environments.solving import Budget, Rehearsal
from actfirst.records import Reference, Task
from actfirst.references.build.replay import rank, try_out, worthy
from actfirst.references.build.shorten import Precedent, Shortened, shorten
from actfirst.references.sources import Candidate

Actions = tuple[str, ...]
_PRECEDENTS = 4  # shortened solutions that are remembered per kind of task
_TIED = 3  # candidates of one score that are shortened; each costs as much as the first


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best replay, and how many actions its candidate had beyond it."""

    reference: Reference
    cut: int


class Workbench:
    """What one process replays with. Opens things when they are first needed; after `close` it opens new ones."""

    def __init__(self, kind: Kind, world: World) -> None:
        self.kind = kind
        self.world = world
        self._environment: Environment | None = None
        self._rehearsal: Rehearsal | None = None

    @property
    def environment(self) -> Environment:
        if self._environment is None:
            self._environment = self.world.open()
        return self._environment

    @property
    def rehearsal(self) -> Rehearsal | None:
        """None where environments are quick enough."""
        if self._rehearsal is None and self.kind.sources.rehearse is not None:
            self._rehearsal = self.kind.sources.rehearse(self.world)
        return self._rehearsal

    def try_out(self, task: Task, candidate: Candidate) -> Reference:
        return try_out(self.environment, task, candidate, self.kind.rules, self.kind.sources.rewrite)

    def close(self) -> None:
        for opened in (self._environment, self._rehearsal):
            if opened is not None:
                opened.close()
        self._environment = self._rehearsal = None


class Trials:
    """Chooses among candidates, and remembers how solutions of each kind of task were shortened. A budget of None
    means no shortening."""

    def __init__(self, bench: Workbench, budget: Budget | None) -> None:
        self._bench = bench
        self._budget = self._left = budget
        self._precedents: dict[str, deque[Precedent]] = {}

    def choose(self, task: Task, candidates: Sequence[Candidate]) -> Chosen | None:
        """None if no candidate leads anywhere."""
        self._left = self._budget
        rehearsal = self._bench.rehearsal
        return (
            self._replay(task, candidates) if rehearsal is None else self._rehearse(task, candidates, rehearsal)
        )

    def _replay(self, task: Task, candidates: Sequence[Candidate]) -> Chosen | None:
        replayed = (self._bench.try_out(task, candidate) for candidate in candidates)
        found = sorted(filter(worthy, replayed), key=rank)
        tied = [one for one in found if one.score == found[0].score][:_TIED]
        return min((self._shortened(task, one) for one in tied), key=_rank, default=None)

    def _shortened(self, task: Task, found: Reference) -> Chosen:
        long, source, score = actions_of(found), found.source, found.score
        short = self._shorten(task, long, lambda part: self._try(task, part, source).score >= score).actions
        if len(short) < len(long):
            found = self._try(task, short, source)
        return Chosen(found, len(long) - len(found.steps))

    def _rehearse(self, task: Task, candidates: Sequence[Candidate], rehearsal: Rehearsal) -> Chosen | None:
        promised = [(rehearsal.score(task, one.actions), one) for one in candidates]
        promised.sort(key=lambda pair: (-pair[0], len(pair[1].actions)))
        chosen: Chosen | None = None
        for place, (score, candidate) in enumerate(promised):
            tied = place < _TIED and score == promised[0][0]
            kept = chosen is not None and chosen.reference.score >= score
            if score <= 0 or (kept and not tied):
                break
            found = self._prepare(task, candidate, score, rehearsal)
            one = Chosen(found, max(0, len(candidate.actions) - len(found.steps)))
            chosen = one if chosen is None else min(chosen, one, key=_rank)
        return chosen if chosen is not None and worthy(chosen.reference) else None

    def _prepare(self, task: Task, candidate: Candidate, score: float, rehearsal: Rehearsal) -> Reference:
        """The candidate, shortened and then worded; if that does not keep its score, worded as a whole: something that
        is needed is not listed under any name, and in the whole list something else may do instead."""
        short = self._shorten(task, candidate.actions, lambda part: rehearsal.score(task, part) >= score)
        found = self._try(task, short.actions, candidate.source)
        for part in (short, Shortened(candidate.actions)):
            if found.score >= score:
                break
            found = min(found, self._word(task, part, candidate.source, rehearsal), key=rank)
        return found

    def _word(self, task: Task, part: Shortened, source: str, rehearsal: Rehearsal) -> Reference:
        """Actions as the simulator lists them, without those that are not needed in this wording. Where each of a minimal
        list has its wording, none is: asking again would cost as much as before."""
        found = self._try(task, rehearsal.reword(task, part.actions), source)
        if part.minimal and len(found.steps) == len(part.actions):
            return found
        long, score = actions_of(found), found.score
        short = self._shorten(task, long, lambda shorter: rehearsal.score(task, shorter) >= score).actions
        return min(found, self._try(task, short, source), key=rank) if len(short) < len(long) else found

    def _shorten(self, task: Task, actions: Actions, works: Callable[[Actions], bool]) -> Shortened:
        if self._left is None:
            return Shortened(actions)
        known = self._precedents.setdefault(task.kind, deque(maxlen=_PRECEDENTS))
        started = time.monotonic()
        short = shorten(actions, works, self._left, tuple(known))
        self._left = self._left.less(short.replays, time.monotonic() - started)
        if len(short.actions) < len(actions):
            known.appendleft(Precedent(actions, short.actions))
        return short

    def _try(self, task: Task, actions: Actions, source: str) -> Reference:
        return self._bench.try_out(task, Candidate(actions, source))


def _rank(chosen: Chosen) -> tuple[float, int]:
    return rank(chosen.reference)


def actions_of(reference: Reference) -> Actions:
    return tuple(step.action for step in reference.steps)
