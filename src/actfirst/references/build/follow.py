"""Follows a reference with its own actions and checks every turn as a guided rollout would.

This is the perfect replay: if the check fails here, guidance would end there for a student that makes no mistake.
Paper, appendix "Transition Consistency Checks".
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.environments.rule_table import Carry, Reason, Transition, TransitionRules
from actfirst.environments.base import Environment
from actfirst.records import Reference, ReferenceStep, Task


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
    score = steps[-1].observation.score if steps else initial.score
    replayed = Reference(task.id, initial, tuple(steps), reference.source, score)
    return Followed(replayed, reason, turn, valid)


def same_transitions(one: Reference, other: Reference, rules: TransitionRules) -> bool:
    """Whether two replays of one action list led to the same transitions throughout."""
    if len(one.steps) != len(other.steps) or rules.compare(one.initial, other.initial):
        return False
    return not any(
        rules.compare(mine.observation, theirs.observation) for mine, theirs in zip(one.steps, other.steps)
    )
