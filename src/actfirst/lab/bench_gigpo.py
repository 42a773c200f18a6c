"""Compares group-relative advantages with a file of known ones, such as the authors' own functions give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from actfirst.errors import ConfigError
from actfirst.methods.group_relative import (
    GroupSettings,
    GroupStep,
    Normalisation,
    Population,
    group_advantages,
)

TOLERANCE: Final = 1e-5


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True)

    task: str
    trajectory: str
    observation: str
    reward: float
    episode_reward: float


class _Case(BaseModel):
    """One case: constants, steps, and what is expected of them, one value per step."""

    model_config = ConfigDict(frozen=True)

    gamma: float
    mode: Normalisation
    similarity: float | None
    step_weight: float
    epsilon: float
    steps: tuple[_Step, ...]
    returns: tuple[float, ...]
    groups: tuple[int, ...]
    episode_over_steps: tuple[float, ...]
    episode_over_trajectories: tuple[float, ...]
    step: tuple[float, ...]
    advantage_over_steps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`largest` differences by value. Groups differ by 0 where they hold the same steps, else by infinity."""

    cases: int
    steps: int
    largest: dict[str, float]

    @property
    def worst(self) -> float:
        return max(self.largest.values())


def compare_file(path: Path) -> Comparison:
    """Compute every case of the file again."""
    try:
        cases = TypeAdapter(tuple[_Case, ...]).validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error})") from error
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"])) or "the file"
        raise ConfigError(f"{path} is no file of cases: {where}: {fault['msg']}") from error
    if not cases:
        raise ConfigError(f"{path} holds no cases")
    largest: dict[str, float] = {}
    for case in cases:
        for name, difference in _differences(case).items():
            largest[name] = max(largest.get(name, 0.0), difference)
    return Comparison(len(cases), sum(len(case.steps) for case in cases), largest)


def _differences(case: _Case) -> dict[str, float]:
    steps = [GroupStep(s.task, s.trajectory, s.observation, s.reward, s.episode_reward) for s in case.steps]

    def settings(over: Population) -> GroupSettings:
        return GroupSettings(
            discount=case.gamma,
            step_weight=case.step_weight,
            normalisation=case.mode,
            over=over,
            similarity=case.similarity,
            epsilon=case.epsilon,
        )

    over_steps = group_advantages(steps, settings("steps"))
    over_trajectories = group_advantages(steps, settings("trajectories"))
    same = _partition(over_steps.anchors) == _partition(case.groups)
    return {
        "returns": _largest(over_steps.returns, case.returns),
        "groups": 0.0 if same else inf,
        "episode advantage over steps": _largest(over_steps.episode, case.episode_over_steps),
        "episode advantage over trajectories": _largest(
            over_trajectories.episode, case.episode_over_trajectories
        ),
        "step advantage": _largest(over_steps.step, case.step),
        "advantage over steps": _largest(over_steps.joint, case.advantage_over_steps),
    }


def _largest(found: Sequence[float], expected: Sequence[float]) -> float:
    if len(found) != len(expected):
        return inf
    differences = [abs(one - other) for one, other in zip(found, expected)]
    return max(differences, default=0.0) if all(map(isfinite, differences)) else inf


def _partition(labels: Sequence[int]) -> list[int]:
    """Labels numbered by their first appearance: how clusters are named does not matter."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]
