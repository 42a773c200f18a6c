"""Which references a run gets: those of a file, or those that a world makes when asked; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.config.runtime_sections import PoolSection
from actfirst.config.sections import ReferencesSection
from actfirst.environments.alfworld.environment import GameEnvironment
from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.pocket.kind import KIND
from actfirst.environments.pocket.section import PocketSection
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.scienceworld.section import ScienceworldSection
from actfirst.environments.webshop.section import WebshopSection
from actfirst.errors import ConfigError, EnvironmentFailure, ReferenceStoreError
from actfirst.references.build.build import Plan, build_store
from actfirst.references.live import LiveReferences
from actfirst.references.store import ReferenceStore
from actfirst.rollout.stage import open_references, open_stage

POCKET = PocketSection(train_tasks=6, eval_tasks=6)


def test_without_a_file_quick_worlds_make_references_when_asked() -> None:
    stage = open_stage(POCKET)
    references = open_references(stage, ReferencesSection(source="expert"))
    assert isinstance(references, LiveReferences)
    first = references.get(stage.world.tasks("train")[0])
    assert first is not None
    assert first.source == "expert"
    shop = open_stage(WebshopSection(nouns="simple"))
    bought = open_references(shop, ReferencesSection()).get(shop.world.tasks("train")[0])
    assert bought is not None
    assert (bought.source, bought.steps[-1].observation.done) == ("oracle", True)


def test_a_world_that_needs_long_asks_for_a_file() -> None:
    with pytest.raises(
        ConfigError, match=r"scienceworld is played in processes of its own.*actfirst references build"
    ):
        open_references(open_stage(ScienceworldSection()), ReferencesSection())


def test_an_engine_in_processes_of_its_own_asks_for_a_file(tmp_path: Path) -> None:
    """Its environments may live in another interpreter, and each replay takes as long as a rollout."""
    games = PocketWorld(train=1, seen=1, unseen=1)
    games.write(games.tasks("train")[0], tmp_path / "train" / "pick_and_place_simple-Thing-None-Place-1")
    stage = open_stage(AlfworldSection(folder=str(tmp_path), engine="textworld"), PoolSection(python="python"))
    with pytest.raises(
        ConfigError, match=r"alfworld is played in processes of its own.*actfirst references build"
    ):
        open_references(stage, ReferencesSection())


class Closed(PocketWorld):
    """Has tasks, and no engine that plays them."""

    def open(self) -> GameEnvironment:
        raise EnvironmentFailure("the engine is not installed")


def test_without_an_engine_no_task_is_called_one_without_a_reference(tmp_path: Path) -> None:
    world, path = Closed(train=2, seen=1, unseen=1), tmp_path / "store.jsonl"
    with pytest.raises(EnvironmentFailure, match=r"no reference of pocket/train.*the engine is not installed"):
        LiveReferences(KIND, world, "walkthrough").get(world.tasks("train")[0])
    with pytest.raises(EnvironmentFailure, match="the engine is not installed"):
        build_store(KIND, lambda: world, Plan(("walkthrough",)), world.tasks("train"), path)
    assert not path.exists()


def test_a_source_of_another_world_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"knows walkthrough, solver, expert, not references\.source = 'oracle'"
    ):
        open_references(open_stage(POCKET), ReferencesSection(source="oracle"))


def test_a_file_is_checked_against_the_recipes_settings(tmp_path: Path) -> None:
    stage, path = open_stage(POCKET), tmp_path / "store.jsonl"
    settings = POCKET.model_dump(mode="json")
    build_store(KIND, lambda: stage.world, Plan(("walkthrough",)), stage.world.tasks("train"), path, settings)
    assert isinstance(open_references(stage, ReferencesSection(path=str(path))), ReferenceStore)
    other = open_stage(PocketSection(train_tasks=6, eval_tasks=6, receptacles=(7, 9)))
    with pytest.raises(
        ReferenceStoreError, match=r"environment\.receptacles is \[6, 9\] there and \[7, 9\] here"
    ):
        open_references(other, ReferencesSection(path=str(path)))
