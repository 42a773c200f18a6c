"""What was spent before a student is trained (paper, Table "Offline preparation costs"), as a file beside its result.

Every stage of preparation writes one: `add` sums up what several calls of the same stage cost, so that a stage that was
stopped and continued counts as a whole. `actfirst report` makes the table from such files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from actfirst.runs import files
from actfirst.runs.record import Record, parse, read_object

PREPARATION = "preparation"
Stage = Literal["sft", "gigpo", "candidates", "references"]
"""Teacher training: `sft`, `gigpo`. `candidates`: rollouts of a model. `references`: replaying and choosing them."""


class Preparation(Record):
    """The cost of one stage. `updates` are of the optimiser, `candidates` the trajectories that were collected."""

    kind: Literal["preparation"] = "preparation"
    environment: str
    stage: Stage
    model: str = ""
    seconds: float = 0.0
    updates: int = 0
    environment_steps: int = 0
    candidates: int = 0

    def plus(self, more: Preparation) -> Preparation:
        sums = ("seconds", "updates", "environment_steps", "candidates")
        return more.model_copy(update={name: getattr(self, name) + getattr(more, name) for name in sums})


def cost_file(result: Path) -> Path:
    """Where the cost of a result stands."""
    return result.with_name(f"{result.name}.cost.json")


def add(result: Path, cost: Preparation) -> Preparation:
    """Add to what the file beside `result` says; returns the sum."""
    known = read(result)
    total = known.plus(cost) if known else cost
    write(result, total)
    return total


def write(result: Path, cost: Preparation) -> None:
    """Replace what the file beside `result` says, for a stage that knows the cost of all its sessions itself."""
    files.write_json(cost_file(result), cost.to_json())


def read(result: Path) -> Preparation | None:
    """What the file beside `result` says, if there is one."""
    path = cost_file(result)
    return parse(read_object(path), Preparation, str(path)) if path.exists() else None
