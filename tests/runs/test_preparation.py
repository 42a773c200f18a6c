"""Costs of offline preparation add up over calls, and the paper's cost table comes from their files."""

from __future__ import annotations

from pathlib import Path

from actfirst.lab.report.cost_table import cost_table
from actfirst.lab.report.page import write_report
from actfirst.lab.report.sources import find_sources
from actfirst.runs.preparation import Preparation, Stage, add, cost_file


def test_a_stage_that_was_continued_counts_as_a_whole(tmp_path: Path) -> None:
    result = tmp_path / "rollouts.jsonl"
    first = Preparation(environment="pocket", stage="candidates", model="8b", seconds=10.0, candidates=3)
    assert add(result, first) == first
    total = add(result, first.model_copy(update={"environment_steps": 7}))
    assert (total.seconds, total.candidates, total.environment_steps) == (20.0, 6, 7)
    assert cost_file(result).name == "rollouts.jsonl.cost.json"


def cost(environment: str, stage: Stage, hours: float, updates: int = 0, candidates: int = 0) -> Preparation:
    return Preparation(
        environment=environment, stage=stage, seconds=3600.0 * hours, updates=updates, candidates=candidates
    )


def test_the_paper_s_table_of_offline_preparation_costs(tmp_path: Path) -> None:
    """Its rows, from files that stages would have written; teacher time is that of all stages."""
    spent = [
        cost("alfworld", "sft", 1.18, 250),
        cost("alfworld", "gigpo", 3.0, 250),
        cost("alfworld", "candidates", 4.5, candidates=35_530),  # one model
        cost("alfworld", "candidates", 4.0, candidates=35_530),  # the other
        cost("scienceworld", "gigpo", 18.27, 144),
        cost("scienceworld", "candidates", 19.88, candidates=22_940),
    ]
    for number, one in enumerate(spent):
        add(tmp_path / f"result-{number}", one)
    table = cost_table(find_sources([tmp_path]).preparations)
    assert table is not None
    rows = [[cell.text for cell in row[:6]] for row in table.rows]
    assert rows == [
        ["alfworld", "4.18", "250", "250", "8.50", "71,060"],
        ["scienceworld", "18.27", "–", "144", "19.88", "22,940"],
    ]
    page = write_report([tmp_path], tmp_path / "report")
    assert "Offline preparation costs" in page.read_text()


def test_without_such_files_there_is_no_table() -> None:
    assert cost_table([]) is None
