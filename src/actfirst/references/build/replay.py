"""Replays an action list in an environment and caches what it showed: this is what a reference is.

Paper, "Reference Trajectories": selected action sequences are replayed offline under the training environment
configuration, and the initial and subsequent observations are kept. `replay` executes a list as it stands; `try_out`
makes the best of somebody else's list: it words actions as the environment lists them, leaves out what is not valid
(a guided rollout could not follow it there), and ends where the best score is reached. `follow` takes a reference's own
actions and checks every turn as a guided rollout would (appendix "Transition Consistency Checks"): if the check fails
here, guidance would end there for a student that makes no mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.environments.base import Environment
from actfirst.environments.normalize import normalize
from actfirst.environments.rules import Carry, Reason, Transition, TransitionRules
from actfirst.environments.solving import Rewrite
from actfirst.errors import ReferenceStoreError
from actfirst.records import Observation, Reference, ReferenceStep, Task
from actfirst.references.sources import Candidate


def replay(environment: Environment, task: Task, actions: Sequence[str], source: str) -> Reference:
    """Execute `actions` from a fresh reset. Actions after termination are an error of the list."""
    _, initial = environment.reset(task)
    steps: list[ReferenceStep] = []
    for number, action in enumerate(actions, start=1):
        if steps and steps[-1].observation.done:
            raise ReferenceStoreError(
                f"reference of task {task.id} goes on after the episode ended at action {number - 1} of "
                f"{len(actions)}; cut the list there"
            )
        steps.append(ReferenceStep(action, environment.step(action)))
    return _reference(task, initial, steps, source)


def try_out(
    environment: Environment, task: Task, candidate: Candidate, rules: TransitionRules, rewrite: Rewrite
) -> Reference:
    """What a candidate comes to: only valid actions, up to the one that reached its best score."""
    _, initial = environment.reset(task)
    steps: list[ReferenceStep] = []
    seen = initial
    for proposed in candidate.actions:
        if seen.done:
            break
        action = _valid_form(proposed, seen, rules, rewrite)
        if action is not None:
            seen = environment.step(action)
            steps.append(ReferenceStep(action, seen))
    return _reference(task, initial, steps[: _best_at(steps)], candidate.source)


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of following a reference. `reason` is that of the first failed check, at `turn`; turn 0 is the
    first observation. `valid` says that every action was valid where it was taken."""

    replayed: Reference
    reason: Reason = Reason.NONE
    turn: int = 0
    valid: bool = True

    @property
    def aligned(self) -> bool:
        return not self.reason


def follow(environment: Environment, task: Task, reference: Reference, rules: TransitionRules) -> Followed:
    """Execute the reference's actions from a fresh reset, up to the end of the list or of the episode."""
    _, initial = environment.reset(task)
    reason, turn, valid = rules.compare(initial, reference.initial), 0, True
    steps: list[ReferenceStep] = []
    seen, carry = initial, Carry()
    for number, step in enumerate(reference.steps):
        if seen.done:
            break
        valid = valid and rules.valid(step.action, seen)
        after = environment.step(step.action)
        if not reason:
            following = reference.steps[number + 1].action if number + 1 < len(reference.steps) else None
            result = rules.check(Transition(seen, step.action, after, step, following), carry)
            reason, turn, carry = result.reason, number + 1, result.carry
        steps.append(ReferenceStep(step.action, after))
        seen = after
    return Followed(_reference(task, initial, steps, reference.source), reason, turn, valid)


def same_transitions(one: Reference, other: Reference, rules: TransitionRules) -> bool:
    """Whether two replays of one action list led to the same transitions throughout."""
    if len(one.steps) != len(other.steps) or rules.compare(one.initial, other.initial):
        return False
    return not any(
        rules.compare(mine.observation, theirs.observation) for mine, theirs in zip(one.steps, other.steps)
    )


def worthy(reference: Reference) -> bool:
    """Whether a replay can serve as a reference at all: it has to lead somewhere."""
    return bool(reference.steps) and reference.score > 0


def rank(reference: Reference) -> tuple[float, int]:
    """Smaller is better: "selection prioritizes higher score and then fewer actions" (paper)."""
    return -reference.score, len(reference.steps)


def _valid_form(action: str, seen: Observation, rules: TransitionRules, rewrite: Rewrite) -> str | None:
    """The action as it can be submitted here; None if it cannot be."""
    if action in seen.admissible:
        return action
    for form in (action, *rewrite(action, seen)):
        if rules.valid(form, seen):
            # Rules forgive case and spaces, simulators do not: what is submitted is the listed spelling.
            wanted = normalize(form)
            return next((listed for listed in seen.admissible if normalize(listed) == wanted), form)
    return None


def _best_at(steps: Sequence[ReferenceStep]) -> int:
    """How many steps it takes to reach the best score; all of them if the score never rises."""
    scores = [step.observation.score for step in steps]
    return scores.index(max(scores)) + 1 if scores and max(scores) > 0 else len(steps)


def _reference(task: Task, initial: Observation, steps: Sequence[ReferenceStep], source: str) -> Reference:
    score = steps[-1].observation.score if steps else initial.score
    return Reference(task.id, initial, tuple(steps), source, score)
