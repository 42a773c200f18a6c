"""An environment that plays ALFWorld games with the native engine, wherever the games come from."""

from __future__ import annotations

from collections.abc import Callable

from actfirst.environments.alfworld.engine import Engine
from actfirst.environments.alfworld.game import Game
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task

TURN_LIMIT = 30
"""Episodes end after this many turns (paper, appendix on evaluation)."""


class GameEnvironment:
    """Plays the game that `load` returns for a task.

    Observations carry ALFWorld's text unchanged, the first one with its banner and task sentence. The
    admissible list leaves out `help`, as in the paper; submitting it shows the help text all the same.
    """

    def __init__(self, load: Callable[[Task], Game]) -> None:
        self._load = load
        self._engine: Engine | None = None

    def reset(self, task: Task) -> tuple[str, Observation]:
        game = self._load(task)
        self._engine = Engine(game)
        return game.task, _observe(self._engine, self._engine.opening)

    def step(self, action: str) -> Observation:
        if self._engine is None:
            raise EnvironmentFailure("step was called before reset, or after close")
        return _observe(self._engine, self._engine.step(action))

    def close(self) -> None:
        self._engine = None


def _observe(engine: Engine, text: str) -> Observation:
    return Observation(
        text=text,
        admissible=tuple(command for command in engine.admissible() if command != "help"),
        done=engine.won,
        success=engine.won,
        score=100.0 if engine.won else 0.0,
        state=engine.digest,
    )
