"""ALFWorld's real engine behind the environment protocol, where the extra `textworld` is installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from actfirst.environments.alfworld.textworld_engine import (
    PACKAGES,
    VERSIONS,
    installed_versions,
    require_textworld,
)
from actfirst.environments.alfworld.world import KINDS, AlfworldWorld
from actfirst.environments.pocket.world import PocketWorld
from actfirst.errors import EnvironmentFailure
from tests.environments.contract import EnvironmentContract

REMEDIES = ("pip install 'actfirst[textworld]'", "pool.python", 'environment.engine = "native"')

needs_textworld = pytest.mark.skipif(
    any(find_spec(name) is None for name in PACKAGES), reason="the extra textworld is not installed"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pocket games under the folder names of upstream."""
    root, world = tmp_path_factory.mktemp("games"), PocketWorld(train=3)
    long = {short: name for name, short in KINDS.items()}
    for task in (world.tasks("train")[0], world.tasks("train")[2]):
        world.write(task, root / "train" / f"{long[task.kind]}-Thing-None-Place-1")
    return root


@needs_textworld
@pytest.mark.slow
class TestTextworldContract(EnvironmentContract):
    sample = 2
    turns = 4

    @pytest.fixture
    def world(self, folder: Path) -> AlfworldWorld:
        return AlfworldWorld(folder, engine="textworld")


@needs_textworld
def test_it_says_and_allows_what_the_native_engine_does(folder: Path) -> None:
    native, real = AlfworldWorld(folder), AlfworldWorld(folder, engine="textworld")
    assert native.fingerprint == real.fingerprint
    task = native.tasks("train")[0]
    ours, theirs = native.open(), real.open()
    assert theirs.reset(task) == ours.reset(task)
    for command in (*native.game(task).walkthrough, "dance"):
        assert theirs.step(command) == ours.step(command)
    theirs.close()
    with pytest.raises(EnvironmentFailure, match="before reset, or after close"):
        theirs.step("look")


SHOW = """
import sys
from pathlib import Path
from actfirst.environments.alfworld import textworld_engine
from actfirst.environments.alfworld.world import AlfworldWorld

if sys.argv[2] == "untouched":
    textworld_engine._work_out_once = lambda: None
world = AlfworldWorld(Path(sys.argv[1]), engine="textworld")
environment = world.open()
for task in world.tasks("train"):
    print(environment.reset(task))
    for command in (*world.game(task).walkthrough, "dance", "inventory"):
        print(environment.step(command))
"""


@needs_textworld
@pytest.mark.slow
def test_what_is_not_worked_out_again_changes_nothing_that_is_shown(folder: Path) -> None:
    shown = {
        way: subprocess.run(
            [sys.executable, "-c", SHOW, str(folder), way], capture_output=True, text=True, check=True
        ).stdout
        for way in ("untouched", "ours")
    }
    assert shown["ours"].count("Observation(") > 10
    assert shown["ours"] == shown["untouched"]


def test_without_the_extra_the_remedies_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actfirst.environments.alfworld.textworld_engine.PACKAGES", ("no_such_package",))
    with pytest.raises(EnvironmentFailure) as caught:
        AlfworldWorld(folder, engine="textworld").open()
    for remedy in REMEDIES:
        assert remedy in str(caught.value)


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions that seem to be installed."""
    engine = "actfirst.environments.alfworld.textworld_engine"
    monkeypatch.setattr(f"{engine}.PACKAGES", ("json",))
    found = dict(VERSIONS)
    monkeypatch.setattr(f"{engine}.installed_version", found.__getitem__)
    return found


def test_with_the_extra_nothing_is_said(versions: dict[str, str]) -> None:
    require_textworld()
    assert versions == installed_versions()


def test_another_version_is_refused_with_the_remedies(folder: Path, versions: dict[str, str]) -> None:
    versions["textworld"] = "1.6.2"
    with pytest.raises(EnvironmentFailure, match=r"finds textworld 1\.6\.2 instead of 1\.7\.0") as caught:
        AlfworldWorld(folder, engine="textworld").open()
    for remedy in REMEDIES:
        assert remedy in str(caught.value)


def test_the_versions_are_those_of_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    pinned = project["project"]["optional-dependencies"]["textworld"]
    assert pinned == [f"{name}=={number}" for name, number in VERSIONS.items()]
