"""What every configuration section is made of: its base class and the small types of its fields."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from actfirst.errors import without_passwords

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
Seconds = Annotated[float, Field(gt=0.0)]
Share = Annotated[float, Field(ge=0.0)]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]


class Section(BaseModel):
    """Base of every section: unknown keys are errors, types are never coerced, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _no_passwords(self) -> Self:
        """A configuration is written to the run folder, printed and passed on: secrets have no place in it."""
        for name, value in self:
            texts = value if isinstance(value, tuple) else (value,)
            if any(isinstance(text, str) and without_passwords(text) != text for text in texts):
                raise ValueError(
                    f"{name} holds a password inside an address, and a run stores its configuration; put the "
                    "secret into an environment variable, and name that where there is a key for it"
                )
        return self
