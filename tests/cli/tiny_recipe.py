"""A recipe that evaluates a tiny random model on short pocket tasks, for tests of commands."""

from __future__ import annotations

from pathlib import Path

RECIPE = """
extends = "pocket"

[environment]
name = "pocket"
eval_tasks = 6
turn_limit = 2

[evaluation]
splits = ["seen", "unseen"]
tasks_per_split = 2
seeds = [1]

[evaluation.generation]
prompt_limit = 1900
first_stage = 8
response_limit = 40
continuation = 8
fast_limit = 8
"""


def write_tiny_recipe(folder: Path) -> Path:
    path = folder / "tiny.toml"
    path.write_text(RECIPE)
    return path
