"""The pocket table of a recipe."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from actfirst.config.base import Positive
from actfirst.environments.base import EnvironmentSection


class PocketSection(EnvironmentSection):
    """Generated houses in ALFWorld's game format, played in-process. Size dials are ranges, ends included."""

    name: Literal["pocket"] = "pocket"
    seed: int = Field(0, description="seed of the generator; another seed gives other houses")
    receptacles: tuple[Positive, Positive] = Field((6, 9), description="size dial: receptacles per house")
    objects: tuple[Positive, Positive] = Field((6, 10), description="size dial: objects per house")
    train_tasks: Positive = Field(2000, description="tasks of the train split")
    eval_tasks: Positive = Field(200, description="tasks of each of the seen and unseen splits")
    turn_limit: Positive = Field(30, description="turns of an episode at most")

    @model_validator(mode="after")
    def _ranges_rise(self) -> Self:
        for key, (least, most) in (("receptacles", self.receptacles), ("objects", self.objects)):
            if least > most:
                raise ValueError(f"{key} = [{least}, {most}] is not a range; write the smaller number first")
        return self
