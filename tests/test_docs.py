"""The checklist of the paper names modules and tests that exist, and says of every row how it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKLIST = ROOT / "docs" / "paper-checklist.md"
_QUOTED = re.compile(r"`([^`]+)`")


def rows() -> list[list[str]]:
    """The cells of all rows below the heads of the tables."""
    lines = [line for line in CHECKLIST.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "place" and not set(row[0]) <= {"-"}]


def test_the_checklist_is_whole() -> None:
    assert len(rows()) > 200
    assert {len(row) for row in rows()} == {5}
    assert len({tuple(row[:2]) for row in rows()}) == len(rows())  # no rule stands there twice


def test_every_row_says_how_it_stands() -> None:
    allowed = ("as the paper", "differs, because ")
    assert [row[1] for row in rows() if not row[4].startswith(allowed)] == []


@pytest.mark.parametrize("module", sorted({name for row in rows() for name in _QUOTED.findall(row[2])}))
def test_a_module_of_the_checklist_exists(module: str) -> None:
    assert (ROOT / "src" / "actfirst" / module).is_file()


@pytest.mark.parametrize("test", sorted({name for row in rows() for name in _QUOTED.findall(row[3])}))
def test_a_test_of_the_checklist_exists(test: str) -> None:
    path, *names = test.split("::")
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    for name in names:
        assert re.search(rf"^\s*(async )?(def|class) {name}\b", text, re.MULTILINE), name


def test_every_row_names_a_module_and_a_test() -> None:
    assert [row[1] for row in rows() if not (_QUOTED.search(row[2]) and _QUOTED.search(row[3]))] == []
