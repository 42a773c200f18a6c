"""Pocket houses as an environment of actfirst. They are ALFWorld games: rules, prompts and sources are ALFWorld's."""

from __future__ import annotations

from actfirst.environments.alfworld.kind import PROMPTS
from actfirst.environments.alfworld.rules import AlfworldRules
from actfirst.environments.alfworld.sources import sources
from actfirst.environments.base import EnvironmentKind, World, inline
from actfirst.environments.pocket.section import PocketSection


def _open(section: PocketSection) -> World:
    from actfirst.environments.pocket.layout import Size
    from actfirst.environments.pocket.world import PocketWorld

    return PocketWorld(
        seed=section.seed,
        size=Size(receptacles=section.receptacles, objects=section.objects),
        train=section.train_tasks,
        seen=section.eval_tasks,
        unseen=section.eval_tasks,
        turn_limit=section.turn_limit,
    )


KIND = EnvironmentKind(
    name="pocket",
    section=PocketSection,
    open=_open,
    rules=AlfworldRules(),
    prompts=PROMPTS,
    hosting=inline,
    sources=sources(experienced=False),
    sample="pocket",
)
