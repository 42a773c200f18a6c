"""From the sources of candidates to the reference of one task.

Paper, appendix "Reference Trajectories": candidates are gathered, the best one is found by replay (`trials.py`), and it
is replayed again where one replay proves little. Of several replays that differ, the one that most others agree with is
cached, and the reference is marked unreliable.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from actfirst.environments.base import World
from actfirst.environments.registry import Kind
from actfirst.environments.rules import TransitionRules
from actfirst.environments.solving import Care
from actfirst.errors import ActfirstError, EnvironmentFailure
from actfirst.records import Reference, ReferenceStep, Task
from actfirst.references.build.replay import Followed, follow, same_transitions
from actfirst.references.build.trials import Trials, Workbench, actions_of
from actfirst.references.sources import Candidate, CandidateSource
from actfirst.references.store import Attempt


@dataclass(frozen=True, slots=True)
class Job:
    """A task, what came of it before, and whether sources that were asked then are asked again."""

    task: Task
    before: Attempt | None = None
    again: bool = False


class Maker:
    """Makes references of one world, one task at a time."""

    def __init__(self, kind: Kind, world: World, sources: Sequence[CandidateSource], care: Care) -> None:
        self._sources = sources
        self._care = care
        self._kind = kind
        self._bench = Workbench(kind, world)
        self._trials = Trials(self._bench, care.shorten)

    def work(self, job: Job) -> Attempt:
        """What comes of a task. Sources that an earlier attempt asked are not asked again, unless that is wanted; its
        reference competes with the new candidates. If the environment fails, twice, the outcome says so and names
        no source as tried, so that a resumed build tries again; a reference from before is kept as it is."""
        started = time.monotonic()
        task, before = job.task, job.before
        done = () if before is None or job.again else before.tried
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
        """Release everything; the next attempt opens it anew."""
        self._bench.close()

    def _make_or_retry(self, task: Task, asked: Sequence[CandidateSource], before: Attempt | None) -> Attempt:
        try:
            return self._make(task, asked, before)
        except Exception:
            self.close()
            return self._make(task, asked, before)

    def _make(self, task: Task, asked: Sequence[CandidateSource], before: Attempt | None) -> Attempt:
        environment = self._bench.environment
        instruction, _ = environment.reset(task)
        refusals: list[str] = []
        proposed = _stored(before)
        for source in asked:
            try:
                proposed += source.candidates(task, instruction)
            except ActfirstError as error:
                refusals.append(f"{source.key}: {error}")
                environment.reset(task)  # if the simulator died over it, this is no refusal but a failure
        candidates = list({candidate.actions: candidate for candidate in reversed(proposed)}.values())[::-1]
        tried = tuple(source.key for source in asked)
        found = Attempt(task.id, task.split, task.kind, tried, candidates=len(candidates))
        chosen = self._trials.choose(task, candidates)
        if chosen is None:
            return replace(found, reason=_why_none(len(candidates), refusals))
        return self._settle(task, chosen.reference, replace(found, cut=chosen.cut))

    def _settle(self, task: Task, reference: Reference, found: Attempt) -> Attempt:
        """Replay as often as the task asks for and keep the replay that most others agree with."""
        rules, chance = self._kind.rules, self._kind.sources.chance
        count = self._care.random_replays if chance is not None and chance(task) else self._care.replays
        others = [follow(self._bench.environment, task, reference, rules) for _ in range(count - 1)]
        replays = [Followed(reference), *others]
        equals = [sum(_agree(one, other, rules) for other in replays) for one in replays]
        places = [n for n, one in enumerate(replays) if one.valid and one.replayed.score >= reference.score]
        place = max(places, key=lambda n: equals[n])
        settled = replace(self._kept(replays[place].replayed), reliable=equals[place] == count)
        return replace(found, replays=count, agreed=equals[place], reference=settled)

    def _kept(self, reference: Reference) -> Reference:
        """The reference with what the checks of its benchmark compare, and nothing more."""
        kept = self._kind.sources.kept
        steps = tuple(ReferenceStep(step.action, kept(step.observation)) for step in reference.steps)
        return replace(reference, initial=kept(reference.initial), steps=steps)


def _agree(one: Followed, other: Followed, rules: TransitionRules) -> bool:
    return one is other or (one.valid and other.valid and same_transitions(one.replayed, other.replayed, rules))


def _stored(before: Attempt | None) -> list[Candidate]:
    if before is None or before.reference is None:
        return []
    return [Candidate(actions_of(before.reference), before.reference.source)]


def _why_none(count: int, refusals: Sequence[str]) -> str:
    if refusals:
        return "; ".join(refusals)
    return "no candidate scores" if count else "no source has a candidate"


def _said(error: Exception) -> str:
    kind = "" if isinstance(error, EnvironmentFailure) else f"{type(error).__name__}: "
    return f"failed: {kind}{error}"
