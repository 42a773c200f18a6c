"""Transition rules of ScienceWorld (paper, appendix "Transition Consistency Checks").

`Observation.admissible` is the simulator's full list of valid actions: it validates, and is never compared.
Nor are `objects` (their aliases vary across resets), score and success, or any text but the observation's own.
"""

from __future__ import annotations

from actfirst.environments.normalize import normalize
from actfirst.environments.rules import Reason, TransitionRules
from actfirst.environments.scienceworld.normalize import normalize_scienceworld
from actfirst.records import Observation


class ScienceworldRules(TransitionRules):
    """Equal observations up to order, and equal sets of action templates, at the end of an episode too."""

    def valid(self, action: str, observation: Observation) -> bool:
        # The list has up to 1,600 entries, and nearly every valid action is in it as written.
        if action in observation.admissible:
            return True
        wanted = normalize(action)
        return any(normalize(listed) == wanted for listed in observation.admissible)

    def compare(self, actual: Observation, reference: Observation) -> Reason:
        if actual.done != reference.done:
            return Reason.TERMINATION
        if normalize_scienceworld(actual.text) != normalize_scienceworld(reference.text):
            return Reason.OBSERVATION
        if _templates(actual) != _templates(reference):
            return Reason.ACTIONS
        return Reason.NONE


def _templates(observation: Observation) -> set[str]:
    return {normalize(template) for template in observation.templates}
