"""The `environment` table of a recipe for an environment of Gymnasium."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from actfirst.config.base import Positive
from actfirst.environments.base import EnvironmentSection


class GymnasiumSection(EnvironmentSection):
    """Any environment that shows text: by a text space of observations, or by rendering itself as text (`ansi`)."""

    name: Literal["gymnasium"] = "gymnasium"
    id: str = Field(description="as in gymnasium.make, such as FrozenLake-v1; MODULE:ID imports a module first")
    options: dict[str, object] = Field({}, description="further arguments of gymnasium.make")
    instruction: str = Field("Reach the goal.", description="what a task is, in words")
    actions: tuple[str, ...] = Field(
        (), description="what the discrete actions are called, in their order; empty: the space takes text"
    )
    success_reward: float = Field(1.0, description="an episode whose rewards sum up to this has succeeded")
    train_tasks: Positive = Field(200, description="tasks of the train split: seeds of a reset")
    eval_tasks: Positive = Field(50, description="tasks of the test split")
    turn_limit: Positive = Field(30, description="turns of an episode at most")
