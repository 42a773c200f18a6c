"""The WebShop table of a recipe."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from actfirst.config.base import NonNegative, Positive
from actfirst.environments.base import EnvironmentSection

NounChoice = Literal["spacy", "simple"]
AfterInvalid = Literal["page", "message"]


class WebshopSection(EnvironmentSection):
    """WebShop's text environment. Ranges of goal ids are written as first id and the id after the last."""

    name: Literal["webshop"] = "webshop"
    folder: str = Field(
        "", description="folder that holds the catalogue files; empty: the small catalogue in the package"
    )
    index: str = Field(
        "", description="where a large catalogue is indexed, once; empty: a folder beside its files"
    )
    products: NonNegative = Field(0, description="take only so many products of the file; 0: all")
    goals: Literal["auto", "human", "synthetic"] = Field(
        "auto", description="written by people, or made from options; auto: people's, if there are enough"
    )
    nouns: NounChoice = Field(
        "spacy", description="noun tagger of the reward; spacy: the original's; simple: needs no installation"
    )
    after_invalid: AfterInvalid = Field(
        "page", description="what an invalid action shows: the same page, or a message that says what is wrong"
    )
    train: tuple[NonNegative, Positive] = Field((0, 4096), description="goal ids of the train split")
    eval: tuple[NonNegative, Positive] = Field((4096, 4196), description="goal ids of the eval split")
    turn_limit: Positive = Field(15, description="turns of an episode at most")

    @model_validator(mode="after")
    def _ids_are_apart(self) -> Self:
        for key, (first, end) in (("train", self.train), ("eval", self.eval)):
            if first >= end:
                raise ValueError(f"{key} = [{first}, {end}] holds no goal; write the smaller number first")
        if self.train[0] < self.eval[1] and self.eval[0] < self.train[1]:
            raise ValueError(
                f"train = {list(self.train)} and eval = {list(self.eval)} share goals; choose ids that do not"
            )
        return self
