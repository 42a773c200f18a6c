"""From the candidates of one task to its reference: replay, select, shorten, repeat.

Paper, appendix "Reference Trajectories". Every candidate is replayed in the training environment; the best one by
`select.py` is kept, shortened where the benchmark asks for it, and replayed again where one replay proves little. Of
several replays that differ, the one that most others agree with is cached, and the reference is marked unreliable.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from actfirst.alignment import RULES, TransitionRules
from actfirst.envs.base import Environment, World
from actfirst.errors import ActfirstError, EnvironmentFailure
from actfirst.records import Reference, Task
from actfirst.references.attempt import Attempt
from actfirst.references.candidates import Candidate, CandidateSource
from actfirst.references.follow import Followed, follow, same_transitions
from actfirst.references.rehearsal import Rehearsal, open_rehearsal
from actfirst.references.replay import kept, try_out
from actfirst.references.rewrite import REWRITES, nothing
from actfirst.references.select import best, rank
from actfirst.references.shorten import Budget, Precedent, shorten


@runtime_checkable
class RandomWorld(Protocol):
    """A world some of whose tasks do not replay: the same actions may lead to other transitions."""

    def is_random(self, task: Task) -> bool: ...


@dataclass(frozen=True, slots=True)
class Care:
    """How much is done for one task: the shortening budget (None: no shortening), and how often the reference is
    replayed in all, in tasks that the world calls random and in others."""

    shorten: Budget | None = None
    replays: int = 1
    random_replays: int = 5


_FULL_SCORE = 99.999  # paper, appendix "Evaluation Metrics"
_PRECEDENTS = 4  # shortened solutions that are remembered per kind of task

CARE: dict[str, Care] = {"scienceworld": Care(shorten=Budget(), replays=2)}
"""What a benchmark needs; `Care()` where it is not listed."""


class Maker:
    """Makes references of one world, one task at a time, in one environment."""

    def __init__(self, world: World, sources: Sequence[CandidateSource], care: Care) -> None:
        self._world = world
        self._sources = sources
        self._care = care
        self._rules: TransitionRules = RULES[world.rules]
        self._rewrite = REWRITES.get(world.rules, nothing)
        self._environment: Environment | None = None
        self._rehearsal: Rehearsal | None = None
        self._precedents: dict[str, deque[Precedent]] = {}

    def attempt(self, task: Task, before: Attempt | None = None, again: bool = False) -> Attempt:
        """What comes of a task. Sources that an earlier attempt asked are not asked again, unless `again`; its
        reference competes with the new candidates. If the environment fails, twice, the outcome says so and names
        no source as tried, so that a resumed build tries again; a reference from before is kept as it is."""
        started = time.monotonic()
        done = () if before is None or again else before.tried
        asked = [source for source in self._sources if source.key not in done]
        try:
            made = self._make_or_retry(task, asked, before)
        except Exception as error:  # whatever a simulator raises is a failure of this task alone
            self.close()
            if before is not None and before.reference is not None:
                return before
            made = Attempt(task.id, task.split, task.kind, (), reason=_said(error))
        tried = tuple(dict.fromkeys((*done, *made.tried)))
        return replace(made, tried=tried, seconds=round(time.monotonic() - started, 3))

    def close(self) -> None:
        """Release the environment; the next attempt opens a new one."""
        if self._environment is not None:
            environment, self._environment = self._environment, None
            environment.close()
        if self._rehearsal is not None:
            rehearsal, self._rehearsal = self._rehearsal, None
            rehearsal.close()

    def _make_or_retry(self, task: Task, asked: Sequence[CandidateSource], before: Attempt | None) -> Attempt:
        try:
            return self._make(task, asked, before)
        except Exception:
            self.close()
            return self._make(task, asked, before)

    def _make(self, task: Task, asked: Sequence[CandidateSource], before: Attempt | None) -> Attempt:
        environment = self._open()
        instruction, _ = environment.reset(task)
        refusals: list[str] = []
        replayed: dict[tuple[str, ...], Reference] = {}
        candidates = _stored(before)
        for source in asked:
            try:
                candidates += source.candidates(task, instruction)
            except ActfirstError as error:
                refusals.append(f"{source.key}: {error}")
                environment.reset(task)  # if the simulator died over it, this is no refusal but a failure
        for candidate in candidates:
            if candidate.actions not in replayed:
                replayed[candidate.actions] = self._try_all_wordings(task, candidate)
        tried = tuple(source.key for source in asked)
        found = Attempt(task.id, task.split, task.kind, tried, candidates=len(replayed))
        chosen = best(replayed.values())
        if chosen is None:
            return replace(found, reason=_why_none(len(replayed), refusals))
        shorter = self._shorten(task, chosen, self._care.shorten) if self._care.shorten else chosen
        return self._settle(task, shorter, replace(found, cut=len(chosen.steps) - len(shorter.steps)))

    def _shorten(self, task: Task, reference: Reference, budget: Budget) -> Reference:
        """The reference without what it can do without, at no loss of score."""
        rehearsal = self._rehearse()
        if rehearsal is not None:
            found = self._shortened(
                task, reference, budget, lambda actions: rehearsal.score(task, actions) >= reference.score
            )
            if found.score >= reference.score:
                return found
        found = self._shortened(
            task,
            reference,
            budget,
            lambda actions: self._retry(task, reference, actions).score >= reference.score,
        )
        return found if found.score >= reference.score else reference

    def _shortened(
        self, task: Task, reference: Reference, budget: Budget, works: Callable[[tuple[str, ...]], bool]
    ) -> Reference:
        """What the environment says to the list that shortening comes to."""
        known = self._precedents.setdefault(task.kind, deque(maxlen=_PRECEDENTS))
        long = _actions(reference)
        short = shorten(long, works, budget, known).actions
        found = self._retry(task, reference, short)
        if found.score >= reference.score and len(short) < len(long):
            known.appendleft(Precedent(long, short))
        return found

    def _retry(self, task: Task, reference: Reference, actions: tuple[str, ...]) -> Reference:
        return self._try(task, Candidate(actions, reference.source))

    def _settle(self, task: Task, reference: Reference, found: Attempt) -> Attempt:
        """Replay as often as the task asks for and keep the replay that most others agree with."""
        random = isinstance(self._world, RandomWorld) and self._world.is_random(task)
        count = self._care.random_replays if random else self._care.replays
        others = [follow(self._open(), task, reference, self._rules) for _ in range(count - 1)]
        replays = [Followed(reference), *others]
        equals = [sum(_agree(one, other, self._rules) for other in replays) for one in replays]
        places = [n for n, one in enumerate(replays) if one.valid and one.replayed.score >= reference.score]
        place = max(places, key=lambda n: equals[n])
        return replace(
            found,
            replays=count,
            agreed=equals[place],
            reference=replace(
                kept(replays[place].replayed, self._world.rules), reliable=equals[place] == count
            ),
        )

    def _try_all_wordings(self, task: Task, candidate: Candidate) -> Reference:
        """Try a candidate; where actions had to be left out, also as the simulator itself would word them."""
        found = self._try(task, candidate)
        left_out = len(found.steps) < len(candidate.actions) and found.score < _FULL_SCORE
        rehearsal = self._rehearse() if left_out else None
        if rehearsal is None:
            return found
        reworded = Candidate(rehearsal.reword(task, candidate.actions), candidate.source)
        return min(found, self._try(task, reworded), key=rank)

    def _rehearse(self) -> Rehearsal | None:
        if self._rehearsal is None:
            self._rehearsal = open_rehearsal(self._world)
        return self._rehearsal

    def _try(self, task: Task, candidate: Candidate) -> Reference:
        return try_out(self._open(), task, candidate, self._rules, self._rewrite)

    def _open(self) -> Environment:
        if self._environment is None:
            self._environment = self._world.open()
        return self._environment


def _agree(one: Followed, other: Followed, rules: TransitionRules) -> bool:
    return one is other or (one.valid and other.valid and same_transitions(one.replayed, other.replayed, rules))


def _stored(before: Attempt | None) -> list[Candidate]:
    if before is None or before.reference is None:
        return []
    return [Candidate(_actions(before.reference), before.reference.source)]


def _actions(reference: Reference) -> tuple[str, ...]:
    return tuple(step.action for step in reference.steps)


def _why_none(count: int, refusals: Sequence[str]) -> str:
    if refusals:
        return "; ".join(refusals)
    return "no candidate scores" if count else "no source has a candidate"


def _said(error: Exception) -> str:
    kind = "" if isinstance(error, EnvironmentFailure) else f"{type(error).__name__}: "
    return f"failed: {kind}{error}"
