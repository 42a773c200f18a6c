"""What worlds themselves say about how their tasks are solved, as candidate sources.

ALFWorld's games carry a walkthrough (it knows where everything is and never searches); our solver also knows the whole
house; the expert acts on what it has seen alone (it searches as a policy must, so its contexts are those that a policy
meets). ScienceWorld's simulator makes up a gold path. WebShop, and any third-party world, say it themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from actfirst.environments.alfworld.expert import expert_turn
from actfirst.environments.alfworld.game import Game
from actfirst.environments.alfworld.solver import solve
from actfirst.environments.base import World
from actfirst.environments.scienceworld.gold import GoldPaths
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.errors import ConfigError
from actfirst.records import Pair, Task, TurnContext
from actfirst.references.build.candidates import Candidate, CandidateSource
from actfirst.references.build.imported import ImportedSource

BEST = "best"
"""Names all sources that a world has of its own."""

_PATIENCE = 60  # turns after which the expert gives up; a rollout's own limit is another matter

_SOLUTIONS = {
    "webshop": "oracle"
}  # what a world's own solutions are called, where the paper has a name for them

Propose = Callable[[Task], Iterator[Sequence[str]]]


@runtime_checkable
class GameWorld(Protocol):
    """A world of ALFWorld games: each carries a walkthrough."""

    def game(self, task: Task) -> Game: ...


@runtime_checkable
class SolvedWorld(Protocol):
    """Any world that can say how its tasks are solved: a third-party one needs no more than this method."""

    def solutions(self, task: Task) -> Iterator[Sequence[str]]: ...


@dataclass(frozen=True)
class OwnSource:
    """A named way of solving the tasks of a world."""

    key: str
    propose: Propose

    def candidates(self, task: Task, instruction: str) -> Iterator[Candidate]:
        for actions in self.propose(task):
            yield Candidate(tuple(actions), self.key)


def own_sources(world: World) -> dict[str, CandidateSource]:
    """The sources that a world has without anybody's files, by name."""
    ways: dict[str, Propose] = {}
    if isinstance(world, GameWorld):
        ways |= _ways_of_games(world, world)
    if isinstance(world, ScienceworldWorld):
        ways |= {"gold": lambda task: iter([_gold(world, task)])}
    if isinstance(world, SolvedWorld):
        ways |= {_SOLUTIONS.get(world.name, "solutions"): world.solutions}
    return {name: OwnSource(name, propose) for name, propose in ways.items()}


def open_sources(
    world: World, names: Sequence[str], imports: Sequence[tuple[Path, str]]
) -> list[CandidateSource]:
    """The named sources (BEST: all of the world's own), then files of demonstrations with their labels."""
    own = own_sources(world)
    unknown = [name for name in names if name != BEST and name not in own]
    if unknown:
        has = f"it has {', '.join(own)}" if own else "it has none: import demonstrations, or let a teacher play"
        raise ConfigError(f"{world.name} has no source of references called {unknown[0]!r}; {has}")
    chosen = dict.fromkeys(name for given in names for name in (own if given == BEST else [given]))
    every_task = [task for split in world.splits() for task in world.tasks(split)] if imports else []
    files = [ImportedSource(path, every_task, label) for path, label in imports]
    return [*(own[name] for name in chosen), *files]


def _ways_of_games(games: GameWorld, world: World) -> dict[str, Propose]:
    return {
        "walkthrough": lambda task: iter([games.game(task).walkthrough]),
        "solver": lambda task: iter([solve(games.game(task))]),
        "expert": lambda task: iter([_search(world, task)]),
    }


def _gold(world: ScienceworldWorld, task: Task) -> Sequence[str]:
    """The gold path without what the domain knows to be needless. Its wording is seen to after it was shortened."""
    with GoldPaths(world) as paths:
        return paths.cut(task, paths.gold(task))


def _search(world: World, task: Task) -> Sequence[str]:
    """What the expert does in a task."""
    environment = world.open()
    instruction, observation = environment.reset(task)
    history: tuple[Pair, ...] = ()
    while not observation.done and len(history) < _PATIENCE:
        context = TurnContext(instruction, history, observation, len(history) + 1)
        action = expert_turn(context).action
        history = (*history, Pair(observation.text, action))
        observation = environment.step(action)
    environment.close()
    return [pair.action for pair in history]
