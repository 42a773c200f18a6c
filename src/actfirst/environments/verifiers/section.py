"""The `environment` table of a recipe for an environment of verifiers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from actfirst.config.base import Positive, Seconds
from actfirst.environments.base import EnvironmentSection


class VerifiersSection(EnvironmentSection):
    """A taskset with the environment that plays it, which has one seat: the student's."""

    name: Literal["verifiers"] = "verifiers"
    id: str = Field(description="of an installed taskset, as verifiers names it")
    pair: str = Field("", description="the id of the environment, where it is not the taskset's own")
    options: dict[str, object] = Field({}, description="further settings of the taskset")
    pair_options: dict[str, object] = Field({}, description="further settings of the environment")
    instruction: str = Field("Do what you are asked to.", description="what a task is, where it does not say")
    success_reward: float = Field(1.0, gt=0.0, description="an episode with this reward has succeeded")
    train_tasks: Positive = Field(200, description="tasks of the train split: the first ones")
    eval_tasks: Positive = Field(50, description="tasks of the test split: those after them")
    turn_limit: Positive = Field(30, description="turns of an episode at most")
    deadline: Seconds = Field(60.0, description="seconds that the environment has for a turn")
