"""What a transition check is given and what it returns (paper, appendix "Transition Consistency Checks").

A check is a pure function of one executed turn, its reference counterpart and what the turn before handed on.
It asks whether the transition came out as in the reference, never whether the action is the reference's.
Switching guidance off for good, and asking again after an invalid proposal, is the business of acting.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from actfirst.records import Observation, ReferenceStep


class Reason(StrEnum):
    """The first thing that differed from the reference; empty (and false) when nothing did."""

    NONE = ""
    INVALID_ACTION = "invalid action"
    TERMINATION = "termination flag differs"
    OBSERVATION = "observation differs"
    ACTIONS = "available actions differ"
    PRODUCT = "reference product is not clickable"


@dataclass(frozen=True, slots=True)
class Carry:
    """What one guided turn hands to the next; `Carry()` begins a rollout.

    `product` is the lower-case identifier of the reference product that must still be clickable, because the
    student stands on search results that differ from the reference's; empty at any other time.
    """

    product: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """One guided turn as executed, beside its reference counterpart.

    `before` is what the student saw when it chose `action`, `after` what the action led to. `reference` is the
    reference's action of this turn and what that led to; `reference_next_action` the action that the reference
    takes right afterwards, None at its end.
    """

    before: Observation
    action: str
    after: Observation
    reference: ReferenceStep
    reference_next_action: str | None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict on one transition, and what the check of the next turn needs."""

    reason: Reason = Reason.NONE
    carry: Carry = Carry()

    @property
    def aligned(self) -> bool:
        return not self.reason


class TransitionRules(Protocol):
    """The rules of one benchmark. All three methods are pure. Whoever inherits has `check` without exceptions."""

    def valid(self, action: str, observation: Observation) -> bool:
        """Whether the action may be executed where the observation was made."""
        ...

    def compare(self, actual: Observation, reference: Observation) -> Reason:
        """The ordinary comparison of an observation with its reference counterpart, exceptions aside."""
        ...

    def check(self, transition: Transition, carry: Carry) -> CheckResult:
        """Whether reference guidance is retained after this turn."""
        if not self.valid(transition.action, transition.before):
            return CheckResult(Reason.INVALID_ACTION)
        return CheckResult(self.compare(transition.after, transition.reference.observation))
