"""The ALFWorld table of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from actfirst.config.base import Positive
from actfirst.environments.base import EnvironmentSection


class AlfworldSection(EnvironmentSection):
    """ALFWorld game files in the layout of the upstream download."""

    name: Literal["alfworld"] = "alfworld"
    folder: str = Field(description="folder that holds json_2.1.1/ (or train/, valid_seen/, ...)")
    engine: Literal["native", "textworld"] = Field(
        "native", description="ours, or the real one (the extra `textworld`): same games, same text"
    )
    turn_limit: Positive = Field(30, description="turns of an episode at most")
