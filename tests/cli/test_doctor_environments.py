"""`actfirst doctor` on environments: what is there, what is missing, and how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.cli.doctor.environments import environment_checks
from actfirst.environments.alfworld import checks
from actfirst.environments.alfworld.world import KINDS
from actfirst.environments.findings import State, examine
from actfirst.environments.pocket.world import PocketWorld


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)


def test_without_games_the_places_and_the_download_are_named() -> None:
    finding = checks.alfworld()
    assert finding.state is State.MISSING
    assert "data/alfworld" in finding.detail
    assert "alfworld-download" in finding.remedy


@pytest.mark.parametrize("place", ["data/alfworld", ".cache/alfworld", "elsewhere"])
def test_games_are_found_counted_and_tried(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "elsewhere":
        monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / place))
    world = PocketWorld()
    kind = next(long for long, short in KINDS.items() if short == world.tasks("train")[0].kind)
    world.write(world.tasks("train")[0], tmp_path / place / "json_2.1.1" / "train" / f"{kind}-A-None-B-1")
    finding = checks.alfworld()
    assert finding.state is State.OK
    assert "train 1" in finding.detail


def test_a_folder_that_holds_no_games_is_a_warning_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "data" / "alfworld").mkdir(parents=True)
    (finding,) = examine([checks.CHECKS[0]])
    assert finding.state is State.WARN
    assert "alfworld-download" in finding.remedy


def test_textworld_is_missing_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PACKAGES", ("no_such_package",))
    finding = checks.textworld()
    assert finding.state is State.MISSING
    assert finding.remedy == "pip install 'actfirst[textworld]'"


@pytest.mark.parametrize(("alfworld", "state"), [("0.4.2", State.OK), ("0.5.0", State.WARN)])
def test_other_versions_than_the_verified_ones_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, alfworld: str, state: State
) -> None:
    monkeypatch.setattr(checks, "PACKAGES", ("json",))
    found = {"alfworld": alfworld, "textworld": "1.7.0"}
    monkeypatch.setattr(checks, "installed_versions", lambda: found)
    finding = checks.textworld()
    assert finding.state is state
    assert f"alfworld {alfworld}" in finding.detail


def test_no_environment_is_needed_by_the_default() -> None:
    assert all(check.failed is not State.BROKEN for check in environment_checks())
