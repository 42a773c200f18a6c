"""Files that README and docs name in backticks exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "actfirst"
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = {path.name for path in SOURCES.iterdir() if path.is_dir()} | {"src", "tests", "docs", "actfirst"}


def named_files(text: str) -> list[str]:
    """What stands in backticks and looks like a file or folder of the project: it begins with a room."""
    quoted = re.findall(r"`([\w.-]+/[\w./-]*)`", text)
    ours = {name for name in quoted if name.split("/")[0] in ROOMS or name.endswith(".py")}
    return sorted(name for name in ours if name.endswith(".py") or not name.startswith("runs/"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    places = (ROOT, ROOT / "src", SOURCES, ROOT / "docs", ROOT / "tests")
    missing = [
        name
        for name in named_files(page.read_text(encoding="utf-8"))
        if not any((place / name).exists() for place in places)
    ]
    assert missing == []


def test_the_picture_of_the_house_shows_every_room() -> None:
    picture = (ROOT / "docs" / "house.md").read_text(encoding="utf-8").split("```")[1]
    shown = set(re.findall(r"([\w]+)/", picture))
    rooms = {path.name for path in SOURCES.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert rooms <= shown


def test_the_way_of_a_task_names_what_is_there() -> None:
    """`file` `name`, side by side: the file defines the name."""
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    hops = re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", page)
    assert len(hops) > 15
    for file, name in hops:
        text = (SOURCES / file).read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"(def|class) {part}\b", text), f"{file} does not define {part}"


@pytest.mark.parametrize("name", ["trust.md", "scaling.md"])
def test_every_test_that_a_page_of_findings_names_is_there(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if test and not re.search(rf"(def|class) {test}\b", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []
