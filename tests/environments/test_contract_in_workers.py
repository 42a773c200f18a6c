"""Every world that needs neither extras nor data keeps its contract in worker processes; ScienceWorld where it is."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.alfworld.world import KINDS
from actfirst.environments.base import EnvironmentSection
from actfirst.environments.pocket.section import PocketSection
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.scienceworld.section import ScienceworldSection
from actfirst.environments.webshop.section import WebshopSection
from tests.environments.contract import EnvironmentContract
from tests.environments.hosted import HostedWorld
from tests.environments.scienceworld import test_environment as science
from tests.environments.webshop.test_webshop_world import ShopContract


class InWorkers(EnvironmentContract):
    """One worker for all tests of a class; the last one of them has its own."""

    sample = 2
    turns = 6

    @pytest.fixture(scope="class")
    @classmethod
    def section(cls) -> EnvironmentSection:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, section: EnvironmentSection) -> Iterator[HostedWorld]:
        hosted = HostedWorld(section)
        hosted.open()
        yield hosted
        hosted.end()

    @pytest.fixture
    def unshared(self, section: EnvironmentSection) -> HostedWorld:
        return HostedWorld(section)


class TestPocket(InWorkers):
    @pytest.fixture(scope="class")
    @classmethod
    def section(cls) -> EnvironmentSection:
        return PocketSection(train_tasks=6, eval_tasks=6)


class TestAlfworld(InWorkers):
    @pytest.fixture(scope="class")
    @classmethod
    def section(cls, tmp_path_factory: pytest.TempPathFactory) -> EnvironmentSection:
        """Two pocket games under the folder names of upstream."""
        root, pocket = tmp_path_factory.mktemp("games"), PocketWorld(train=2)
        long = {short: name for name, short in KINDS.items()}
        for task in pocket.tasks("train"):
            pocket.write(task, root / "train" / f"{long[task.kind]}-Thing-None-Place-1")
        return AlfworldSection(folder=str(root))


class TestWebshop(InWorkers, ShopContract):
    @pytest.fixture(scope="class")
    @classmethod
    def section(cls) -> EnvironmentSection:
        return WebshopSection(nouns="simple")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("scienceworld") is None, reason="the extra scienceworld is not installed")
class TestScienceworld(InWorkers, science.ScienceContract):
    sample = 1
    turns = 2

    @pytest.fixture(scope="class")
    @classmethod
    def section(cls) -> EnvironmentSection:
        return ScienceworldSection(kinds=science.KINDS)
