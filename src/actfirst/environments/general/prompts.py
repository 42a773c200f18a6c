"""Prompts for any world: the paper's wording without the name of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from actfirst.environments.base import PromptForms
from actfirst.records import Observation


def action_values(observation: Observation) -> Mapping[str, Sequence[str]]:
    """The admissible actions; a world that cannot tell takes any text."""
    return {"admissible_actions": observation.admissible or ("any text",)}


PROMPTS = PromptForms(files("actfirst.environments.general") / "templates", action_values)
