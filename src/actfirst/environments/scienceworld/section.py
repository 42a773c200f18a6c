"""The ScienceWorld table of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from actfirst.config.base import Positive
from actfirst.environments.base import EnvironmentSection
from actfirst.environments.scienceworld.tasks import PAPER_EVAL, Gate


class ScienceworldSection(EnvironmentSection):
    """ScienceWorld 1.2.3, `easy` preset, the paper's split."""

    name: Literal["scienceworld"] = "scienceworld"
    kinds: tuple[str, ...] = Field((), description="task types to play, such as boil; empty: all of the split")
    seed: int = Field(0, description="seed of what the simulator leaves to chance")
    gate: Gate = Field(
        "none", description="'valid list' refuses every action that the simulator does not list as valid"
    )
    eval_variations: Positive = Field(
        PAPER_EVAL,
        description="the last so many variations of each task type are the eval split, unless they are for training",
    )
    turn_limit: Positive = Field(30, description="turns of an episode at most")
