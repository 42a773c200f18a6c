"""ScienceWorld as an environment of actfirst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from random import Random
from typing import TYPE_CHECKING

from actfirst.environments.base import EnvironmentKind, Hosting, PromptForms, World
from actfirst.environments.findings import Check
from actfirst.environments.scienceworld.lexicon import LEXICON
from actfirst.environments.scienceworld.rules import ScienceworldRules
from actfirst.environments.scienceworld.section import ScienceworldSection
from actfirst.environments.scienceworld.tasks import is_random
from actfirst.environments.solving import (
    Budget,
    Care,
    Demonstrated,
    ReferenceSources,
    Rehearsal,
    demonstrated_way,
)
from actfirst.records import Observation, Task, TurnContext

if TYPE_CHECKING:
    from actfirst.environments.scienceworld.world import ScienceworldWorld


def _open(section: ScienceworldSection) -> World:
    from actfirst.environments.scienceworld.world import ScienceworldWorld

    return ScienceworldWorld(
        section.kinds, section.seed, section.turn_limit, section.gate, section.eval_variations
    )


def _hosting(section: ScienceworldSection) -> Hosting:
    # Games of one worker share a Java process, where their steps take turns: a few of them save memory cheaply.
    return Hosting(processes=True, per_worker=4)


def _require(section: ScienceworldSection) -> None:
    from actfirst.environments.scienceworld.java import require_scienceworld

    require_scienceworld()


def _checks() -> Sequence[Check]:
    from actfirst.environments.scienceworld.checks import CHECKS

    return CHECKS


def _gold(world: ScienceworldWorld, task: Task) -> Iterator[Sequence[str]]:
    """The gold path without what is known not to be needed. Its wording is seen to after it was shortened."""
    from actfirst.environments.scienceworld.gold import GoldPaths

    with GoldPaths(world) as paths:
        yield paths.cut(task, paths.gold(task))


def _demonstrate(context: TurnContext) -> Demonstrated:
    from actfirst.environments.scienceworld.expert import expert_turn

    return expert_turn(context)


def _forget(context: TurnContext, rng: Random) -> Demonstrated:
    from actfirst.environments.scienceworld.expert import forgetful_turn

    return forgetful_turn(context, rng)


def _rehearse(world: ScienceworldWorld) -> Rehearsal:
    """The list of valid commands is by far the simulator's most expensive answer, and a score needs none."""
    from actfirst.environments.scienceworld.gold import GoldPaths

    return GoldPaths(world)


def _kept(observation: Observation) -> Observation:
    """The admissible list (up to 1,600 strings) validates what a student does where the student stands; the
    reference's own list is never compared, nor are its objects (paper, appendix "Transition Consistency Checks")."""
    return replace(observation, admissible=(), objects=())


def _action_values(observation: Observation) -> Mapping[str, Sequence[str]]:
    return {"action_templates": observation.templates, "objects": observation.objects}


KIND = EnvironmentKind(
    name="scienceworld",
    section=ScienceworldSection,
    open=_open,
    rules=ScienceworldRules(),
    executes_unlisted=True,
    prompts=PromptForms(files("actfirst.environments.scienceworld") / "templates", _action_values),
    hosting=_hosting,
    require=_require,
    sources=ReferenceSources(
        ways={"gold": _gold, "expert": partial(demonstrated_way, demonstrator=_demonstrate)},
        best=("gold",),  # the expert knows few task types
        rehearse=_rehearse,
        kept=_kept,
        chance=is_random,
        care=Care(shorten=Budget(), replays=2),
        demonstrator=_demonstrate,
        novice=_forget,
    ),
    checks=_checks,
    sample="scienceworld-small",
    lexicon=LEXICON,
)
