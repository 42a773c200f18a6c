"""Pictures: that they are written, of sensible size, and what their names and labels say."""

from __future__ import annotations

from pathlib import Path

from actfirst.lab.compare import MethodRuns, compare
from actfirst.lab.compare_picture import _apart, draw_comparison
from actfirst.runs.run import open_run
from actfirst.terminal.pictures import draw_run
from tests.support.run_folders import write_run

PNG = b"\x89PNG\r\n"


def test_a_run_with_two_evaluations_has_a_picture(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", seed=1, seconds=9.0, curve=[(0, 0.0, 10.0), (8, 9.0, 60.0)])
    path = draw_run(folder)
    assert path == folder / "success.png"
    assert path.read_bytes().startswith(PNG)


def test_a_run_with_one_evaluation_has_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", seed=1, seconds=9.0, curve=[(8, 9.0, 60.0)])
    assert draw_run(folder) is None


def test_a_comparison_has_a_picture_with_or_without_curves(tmp_path: Path) -> None:
    curves = {"a": [(0, 0.0, 10.0), (8, 9.0, 60.0)], "b": []}
    runs = {
        name: open_run(write_run(tmp_path / name, seed=1, seconds=9.0, curve=curve))
        for name, curve in curves.items()
    }
    for names in (("a",), ("a", "b"), ("b",)):
        comparison = compare([MethodRuns(name, name, (runs[name],)) for name in names])
        path = draw_comparison(comparison, tmp_path / f"{''.join(names)}.png")
        assert path.read_bytes().startswith(PNG)


def test_names_of_lines_that_end_together_stand_apart() -> None:
    heights = _apart([70.0, 72.0, 20.0], needed=10.0)
    assert heights[1] - heights[0] >= 10.0
    assert abs(heights[2] - 20.0) <= 4.0
