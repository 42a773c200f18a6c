"""The base of everything that crosses the disk: written with its keys in the order of its fields, read with unknown
keys ignored, so that runs of other versions stay readable. What was added later has a default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from actfirst import reading
from actfirst.errors import RunFolderError


class Record(BaseModel):
    """A line or a file of a run folder."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


Kind = TypeVar("Kind", bound=Record)


def parse(data: Mapping[str, object], kind: type[Kind], where: str) -> Kind:
    """A record of some data; raises RunFolderError, which says what does not fit."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise RunFolderError(f"{where} cannot be read: {first_fault(error)}") from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; anything else is an empty one, in which no record can be found."""
    try:
        data = reading.read_json(path)
    except reading.Unreadable as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    return data if isinstance(data, dict) else {}


def first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
