"""Builds a collector over the corridor with a scripted engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from actfirst.config.sections import Generation
from actfirst.environments.base import World
from actfirst.environments.pool.inline import InlinePool
from actfirst.methods.acting import Policy
from actfirst.methods.table import METHODS
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Task
from actfirst.references.base import References
from actfirst.rollout.collect import Collector
from actfirst.rollout.play import Player
from actfirst.rollout.responses import Scorer
from tests.support.kinds import RULES, TEMPLATE_SETS
from tests.support.scripted import Request, Script, ScriptedEngine, ScriptedTeacher
from tests.support.tiny_models import make_tiny_tokenizer
from tests.support.toy_world import CorridorReferences, CorridorWorld

GENERATION = Generation(prompt_limit=4000, first_stage=200, response_limit=260, continuation=60, fast_limit=60)


@dataclass
class Bench:
    """A collector and what it is made of."""

    engine: ScriptedEngine
    teacher: Scorer
    collector: Collector

    def playing(self, **changes: Any) -> Collector:
        """The collector with another player."""
        return replace(self.collector, player=replace(self.collector.player, **changes))


_ENCODER: list[PromptEncoder] = []


def encoder() -> PromptEncoder:
    if not _ENCODER:
        _ENCODER.append(PromptEncoder(make_tiny_tokenizer()))
    return _ENCODER[0]


def bench(
    method: str,
    script: Script,
    *,
    budget: int | None = None,
    teacher: Scorer | None = None,
    world: World | None = None,
    references: References | None = None,
    generation: Generation = GENERATION,
) -> Bench:
    engine = ScriptedEngine(encoder(), script)
    world = world or CorridorWorld()
    teacher = teacher or ScriptedTeacher()
    collector = Collector(
        method=METHODS[method],
        player=Player(
            Policy(engine, encoder(), TEMPLATE_SETS["alfworld"], generation),
            InlinePool(world),
            RULES["alfworld"],
            world.turn_limit,
            references or CorridorReferences(),
        ),
        teacher=teacher,
        seed=7,
        budget=budget,
    )
    return Bench(engine, teacher, collector)


def corridor_tasks(count: int) -> list[Task]:
    return list(CorridorWorld().tasks("train"))[:count]


def right_action(request: Request) -> str:
    """What a perfect agent does, read from the admissible actions of the prompt."""
    return "pull lever" if "'pull lever'" in request.text else "go east"


def perfect(request: Request) -> str:
    action = f"<action>{right_action(request)}</action>"
    return action if request.is_fast else f"<think>\nI know the way.\n</think>\n\n{action}"
