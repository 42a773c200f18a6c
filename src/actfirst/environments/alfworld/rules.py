"""Transition rules of ALFWorld (paper, appendix "Transition Consistency Checks").

`Observation.admissible` holds the admissible commands; `help` counts neither as an action nor in comparisons.
"""

from __future__ import annotations

from actfirst.environments.normalize import normalize
from actfirst.environments.rules import Reason, TransitionRules
from actfirst.records import Observation

_HELP = "help"


class AlfworldRules(TransitionRules):
    """Equal observations and, unless the episode ended, equal sets of admissible commands."""

    def valid(self, action: str, observation: Observation) -> bool:
        return normalize(action) in _commands(observation)

    def compare(self, actual: Observation, reference: Observation) -> Reason:
        if actual.done != reference.done:
            return Reason.TERMINATION
        if normalize(actual.text) != normalize(reference.text):
            return Reason.OBSERVATION
        if not actual.done and _commands(actual) != _commands(reference):
            return Reason.ACTIONS
        return Reason.NONE


def _commands(observation: Observation) -> set[str]:
    return {normalize(command) for command in observation.admissible} - {_HELP}
