"""Environments of verifiers as one of actfirst (the extra `verifiers`).

A reply is any text, and the environment says what it does. Nothing tells admissible actions or a state: prompts say
"any text", and rules compare texts and ends.
"""

from __future__ import annotations

from actfirst.environments.base import EnvironmentKind, World, inline
from actfirst.environments.general.extra import require_extra
from actfirst.environments.general.prompts import PROMPTS
from actfirst.environments.general.rules import GeneralRules
from actfirst.environments.verifiers.section import VerifiersSection


def _open(section: VerifiersSection) -> World:
    _require(section)
    from actfirst.environments.verifiers.world import VerifiersWorld

    return VerifiersWorld(section)


def _require(section: VerifiersSection) -> None:
    require_extra("verifiers")


KIND = EnvironmentKind(
    name="verifiers",
    section=VerifiersSection,
    open=_open,
    rules=GeneralRules(),
    prompts=PROMPTS,
    executes_unlisted=True,
    hosting=inline,
    require=_require,
)
