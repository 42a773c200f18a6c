"""How ALFWorld games are solved: by their walkthrough, by our solver, or by the expert.

The walkthrough and the solver know where everything is and never search. The expert acts on what it has seen alone: it
searches as a policy must, so its contexts are those that a policy meets. In ALFWorld's own houses it knows from the
training games where things usually are; in other houses of the same rules it knows nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol

from actfirst.environments.base import World
from actfirst.environments.normalize import normalize
from actfirst.environments.solving import Demonstrated, ReferenceSources, demonstrated_way
from actfirst.records import Observation, Task, TurnContext

if TYPE_CHECKING:
    from actfirst.environments.alfworld.game import Game
    from actfirst.environments.alfworld.prior import Prior

_PUT = re.compile(r"put (.+) (?:in/on|in|on|into|onto) (.+)")


class GameWorld(World, Protocol):
    """A world of ALFWorld games: each carries a walkthrough."""

    def game(self, task: Task) -> Game: ...


def walkthrough(world: GameWorld, task: Task) -> Iterator[Sequence[str]]:
    yield world.game(task).walkthrough


def solver(world: GameWorld, task: Task) -> Iterator[Sequence[str]]:
    from actfirst.environments.alfworld.solver import solve

    yield solve(world.game(task))


def rewrite(action: str, seen: Observation) -> Iterator[str]:
    """`put X in/on Y` of older game files is `move X to Y` today."""
    bare = normalize(action).rstrip(".")
    yield bare
    if put := _PUT.fullmatch(bare):
        yield f"move {put.group(1)} to {put.group(2)}"


def demonstrate(context: TurnContext, experienced: bool = False) -> Demonstrated:
    """The expert with its reasons."""
    from actfirst.environments.alfworld.expert import expert_turn

    return expert_turn(context, experience=_experience(experienced))


def hesitate(context: TurnContext, rng: Random, experienced: bool = False) -> Demonstrated:
    """Somebody who reads well and does not know what comes next."""
    from actfirst.environments.alfworld.expert import hesitant_turn

    return hesitant_turn(context, _experience(experienced))


def hurry(context: TurnContext, rng: Random) -> str:
    """Go somewhere: who does not think wanders through the house and takes nothing."""
    admissible = context.observation.admissible
    return rng.choice([action for action in admissible if action.startswith("go to ")] or admissible)


def _experience(experienced: bool) -> Prior | None:
    from actfirst.environments.alfworld.prior import training_prior

    return training_prior() if experienced else None


def sources(experienced: bool) -> ReferenceSources:
    expert = partial(demonstrate, experienced=experienced)
    return ReferenceSources(
        {
            "walkthrough": walkthrough,
            "solver": solver,
            "expert": partial(demonstrated_way, demonstrator=expert),
        },
        rewrite,
        demonstrator=expert,
        novice=partial(hesitate, experienced=experienced),
        hasty=hurry,
    )
