"""Transition rules for a world of which nothing is known: the same text, up to normalisation, and the same end.

Where a world cannot tell its admissible actions (`Observation.admissible` is empty), every action is valid.
"""

from __future__ import annotations

from actfirst.environments.normalize import normalize
from actfirst.environments.rules import Reason, TransitionRules
from actfirst.records import Observation


class GeneralRules(TransitionRules):
    """Equal observations after normalisation, and equal termination."""

    def valid(self, action: str, observation: Observation) -> bool:
        return not observation.admissible or normalize(action) in map(normalize, observation.admissible)

    def compare(self, actual: Observation, reference: Observation) -> Reason:
        if actual.done != reference.done:
            return Reason.TERMINATION
        return Reason.NONE if normalize(actual.text) == normalize(reference.text) else Reason.OBSERVATION
