"""The `environment` table of a recipe for a server of OpenEnv."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from actfirst.config.base import Positive, Seconds
from actfirst.environments.base import EnvironmentSection


class OpenEnvSection(EnvironmentSection):
    """A running server whose actions have one field of text."""

    name: Literal["openenv"] = "openenv"
    url: str = Field(description="address of the server, as in http://localhost:8000")
    action: str = Field(
        "", description="the field of an action that holds the text; empty: the one that is required"
    )
    observation: str = Field(
        "", description="the field of an observation that is shown; empty: all of it, as JSON"
    )
    reset: dict[str, object] = Field({}, description="further arguments of a reset, beside the seed")
    instruction: str = Field("Reach the goal.", description="what a task is, in words")
    success_reward: float = Field(
        1.0, gt=0.0, description="an episode whose rewards sum up to this has succeeded"
    )
    train_tasks: Positive = Field(200, description="tasks of the train split: seeds of a reset")
    eval_tasks: Positive = Field(50, description="tasks of the test split")
    turn_limit: Positive = Field(30, description="turns of an episode at most")
    deadline: Seconds = Field(60.0, description="seconds that the server has for an answer")
