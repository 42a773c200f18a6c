"""Environments of Gymnasium as one of actfirst (the extra `gymnasium`).

A task is a seed. Gymnasium knows no instruction, no admissible list but that of a discrete space, and no state: the
section says the first, and rules compare texts.
"""

from __future__ import annotations

from actfirst.environments.base import EnvironmentKind, World, inline
from actfirst.environments.general.extra import require_extra
from actfirst.environments.general.prompts import PROMPTS
from actfirst.environments.general.rules import GeneralRules
from actfirst.environments.gymnasium.section import GymnasiumSection


def _open(section: GymnasiumSection) -> World:
    from actfirst.environments.gymnasium.world import GymnasiumWorld

    _require(section)
    return GymnasiumWorld(section)


def _require(section: GymnasiumSection) -> None:
    require_extra("gymnasium")


KIND = EnvironmentKind(
    name="gymnasium",
    section=GymnasiumSection,
    open=_open,
    rules=GeneralRules(),
    prompts=PROMPTS,
    hosting=inline,
    require=_require,
)
