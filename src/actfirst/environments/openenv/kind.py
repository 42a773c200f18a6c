"""A server of OpenEnv as an environment of actfirst (the extra `openenv`).

A task is a seed, an action any text, and the server says what it does. Nothing tells admissible actions or a state:
prompts say "any text", and rules compare texts and ends.
"""

from __future__ import annotations

from actfirst.environments.base import EnvironmentKind, World, inline
from actfirst.environments.general.extra import require_extra
from actfirst.environments.general.prompts import PROMPTS
from actfirst.environments.general.rules import GeneralRules
from actfirst.environments.openenv.section import OpenEnvSection


def _open(section: OpenEnvSection) -> World:
    _require(section)
    from actfirst.environments.openenv.world import OpenEnvWorld

    return OpenEnvWorld(section)


def _require(section: OpenEnvSection) -> None:
    require_extra("openenv")


KIND = EnvironmentKind(
    name="openenv",
    section=OpenEnvSection,
    open=_open,
    rules=GeneralRules(),
    prompts=PROMPTS,
    executes_unlisted=True,
    hosting=inline,
    require=_require,
)
