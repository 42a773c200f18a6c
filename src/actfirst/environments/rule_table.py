"""Whether a guided turn came out as in the reference: one set of transition rules per benchmark.

Implements the appendix "Transition Consistency Checks" of the paper on observable text alone. It imports
neither environments nor engines.
"""

from __future__ import annotations

from actfirst.environments.alfworld.rules import AlfworldRules
from actfirst.environments.rules import Carry, CheckResult, Reason, Transition, TransitionRules
from actfirst.environments.scienceworld.rules import ScienceworldRules
from actfirst.environments.webshop.rules import WebshopRules

RULES: dict[str, TransitionRules] = {
    "alfworld": AlfworldRules(),
    "webshop": WebshopRules(),
    "scienceworld": ScienceworldRules(),
}

__all__ = ["RULES", "Carry", "CheckResult", "Reason", "Transition", "TransitionRules"]
