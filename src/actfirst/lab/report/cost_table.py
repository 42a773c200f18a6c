"""The paper's table "Offline preparation costs": what was spent before training, one row an environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actfirst.lab.report.cells import NOTHING, Cell, Table, Words, number
from actfirst.runs.preparation import Preparation, Stage

Costs = Sequence[tuple[Path, Preparation]]
_TEACHER: tuple[Stage, ...] = ("sft", "gigpo")


def cost_table(costs: Costs) -> Table | None:
    """Sums over all files of a stage; a dash where no file tells of it."""
    if not costs:
        return None
    environments = dict.fromkeys(cost.environment for _, cost in costs)
    rows = [_row(name, [one for one in costs if one[1].environment == name]) for name in environments]
    return Table(
        slug="preparation",
        title="Offline preparation costs",
        note="Time of all stages of a teacher's training, of collecting candidates, and of replaying and choosing "
        "references. Files beside the results of these stages say it; a stage that was continued counts as a whole.",
        heads=(
            "Environment",
            "Teacher (h)",
            "SFT steps",
            "GiGPO steps",
            "Candidates (h)",
            "Candidates",
            "Environment steps",
            "References (h)",
        ),
        rows=tuple(rows),
    )


def _row(environment: str, costs: Costs) -> tuple[Cell, ...]:
    return (
        Words(environment),
        _hours(costs, _TEACHER),
        _sum(costs, ("sft",), "updates"),
        _sum(costs, ("gigpo",), "updates"),
        _hours(costs, ("candidates",)),
        _sum(costs, ("candidates",), "candidates"),
        _sum(costs, (*_TEACHER, "candidates"), "environment_steps"),
        _hours(costs, ("references",)),
    )


def _hours(costs: Costs, stages: tuple[Stage, ...]) -> Cell:
    return _sum(costs, stages, "seconds", 3600.0, 2)


def _sum(costs: Costs, stages: tuple[Stage, ...], name: str, unit: float = 1.0, digits: int = 0) -> Cell:
    found = [(path, float(getattr(cost, name))) for path, cost in costs if cost.stage in stages]
    if not found:
        return Words(NOTHING)
    return number(sum(value for _, value in found) / unit, digits, [path for path, _ in found])
