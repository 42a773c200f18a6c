"""ALFWorld's real engine behind the environment protocol, where the extra `textworld` is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from actfirst.envs.alfworld.textworld_engine import PACKAGES, require_textworld
from actfirst.envs.alfworld.world import KINDS, AlfworldWorld
from actfirst.envs.pocket.world import PocketWorld
from actfirst.errors import EnvironmentFailure
from tests.envs.contract import EnvironmentContract

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


def test_without_the_extra_the_remedies_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actfirst.envs.alfworld.textworld_engine.PACKAGES", ("no_such_package",))
    with pytest.raises(EnvironmentFailure) as caught:
        AlfworldWorld(folder, engine="textworld").open()
    for remedy in ("pip install 'actfirst[textworld]'", "pool.python", 'environment.engine = "native"'):
        assert remedy in str(caught.value)


def test_with_the_extra_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actfirst.envs.alfworld.textworld_engine.PACKAGES", ("json",))
    require_textworld()
