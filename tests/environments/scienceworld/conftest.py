"""One simulator for all tests of this folder: it lives as long as somebody has an environment open."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from actfirst.environments.scienceworld.environment import ScienceworldPlayer
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.records import Task


@pytest.fixture(scope="session")
def world() -> ScienceworldWorld:
    return ScienceworldWorld()


@pytest.fixture(scope="session")
def running() -> Iterator[None]:
    if find_spec("scienceworld") is None:
        pytest.skip("the extra scienceworld is not installed")
    kept = ScienceworldWorld().open()
    yield
    kept.close()


@pytest.fixture
def environment(world: ScienceworldWorld, running: None) -> Iterator[ScienceworldPlayer]:
    environment = world.open()
    yield environment
    environment.close()


def first(world: ScienceworldWorld, kind: str, split: str = "train") -> Task:
    """The first task of a type."""
    return next(task for task in world.tasks(split) if task.kind == kind)
