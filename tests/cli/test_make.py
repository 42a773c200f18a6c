"""`make train` and `make test` do their own set-up, once, in the right environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def would_run(project: Path, target: str, **environment: str) -> list[str]:
    """The commands that make would run, without any of the caller's make or virtual environment."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    made = subprocess.run(
        ["make", "--dry-run", target],
        cwd=project,
        env=plain | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in made.stdout.splitlines() if not line.startswith("touch")]


def pretend_installed(venv: Path) -> None:
    (venv / "bin").mkdir(parents=True)
    for name in ("bin/python", ".actfirst-installed", ".actfirst-dev-installed"):
        (venv / name).touch()


def test_on_a_fresh_machine_train_makes_an_environment_installs_and_trains(project: Path) -> None:
    commands = would_run(project, "train")
    assert commands[-3:] == [
        "python3 -m venv .venv",
        ".venv/bin/python -m pip install --editable .",
        ".venv/bin/actfirst train pocket",
    ]


def test_on_a_fresh_machine_test_installs_the_tools_too(project: Path) -> None:
    assert would_run(project, "test")[-2:] == [
        ".venv/bin/python -m pip install --editable '.[dev]'",
        ".venv/bin/python -m pytest",
    ]


def test_an_active_environment_is_used(project: Path, tmp_path: Path) -> None:
    active = tmp_path / "active"
    pretend_installed(active)
    assert would_run(project, "train", VIRTUAL_ENV=str(active)) == [f"{active}/bin/actfirst train pocket"]


def test_nothing_is_installed_twice(project: Path) -> None:
    pretend_installed(project / ".venv")
    assert would_run(project, "test") == [".venv/bin/python -m pytest"]


def test_a_change_of_pyproject_installs_again(project: Path) -> None:
    pretend_installed(project / ".venv")
    later = (project / ".venv/.actfirst-installed").stat().st_mtime + 10
    os.utime(project / "pyproject.toml", (later, later))
    assert ".venv/bin/python -m pip install --editable ." in would_run(project, "train")
