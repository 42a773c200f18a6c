"""An ALFWorld engine that is wrong on purpose, in the place of TextWorld: what a verification must find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from actfirst.environments.alfworld.files import GameFiles
from actfirst.environments.base import Environment
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task


class TamperedEnvironment:
    """Says `picked` for `pick`, swaps two commands, or fails, depending on how it is `tampered`."""

    def __init__(self, environment: Environment, how: str) -> None:
        self._environment = environment
        self._how = how

    def reset(self, task: Task) -> tuple[str, Observation]:
        instruction, first = self._environment.reset(task)
        return instruction, first

    def step(self, action: str) -> Observation:
        seen = self._environment.step(action)
        match self._how:
            case "text":
                return replace(seen, text=seen.text.replace("You pick up", "You picked up"))
            case "order":
                return replace(seen, admissible=seen.admissible[::-1])
            case "won":
                return replace(seen, success=False)
            case "failure" if seen.success:
                raise EnvironmentFailure("the planner died")
        return seen

    def close(self) -> None:
        self._environment.close()


class TamperedFiles(GameFiles):
    def __init__(self, folder: Path, how: str) -> None:
        super().__init__(folder, "native")
        self._how = how

    def open(self) -> Environment:
        return TamperedEnvironment(super().open(), self._how)
