"""Third-party environments: the one that the documentation shows is installed and trained on, as it stands there."""

from __future__ import annotations

import asyncio
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actfirst.cli.doctor import environments
from actfirst.config.config import Config
from actfirst.config.load import dump_toml, resolve
from actfirst.environments import registry
from actfirst.environments.base import OptionsSection, World
from actfirst.environments.findings import State
from actfirst.environments.pool.pool import ProcessPool
from actfirst.environments.registry import available, open_world
from actfirst.environments.solving import Care
from actfirst.errors import ConfigError, EnvironmentFailure
from actfirst.methods.acting import TrainingPoint
from actfirst.policy.render import render
from actfirst.records import Mode, TurnContext
from actfirst.references.build.make import Job, Maker
from actfirst.references.sources import open_sources
from actfirst.rollout.collect import RolloutBatch
from actfirst.rollout.stage import open_stage
from actfirst.runs.run_folder import read_episodes
from tests.cli.runner import run
from tests.environments.contract import EnvironmentContract
from tests.support.collecting import bench
from tests.support.scripted import Request
from tests.support.tiny_run import overrides

DOCS = Path(__file__).parents[2] / "docs" / "environments.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown(language: str, containing: str) -> str:
    """The one code block of the documentation that holds a text."""
    (block,) = [
        text for kind, text in BLOCK.findall(DOCS.read_text()) if kind == language and containing in text
    ]
    return str(block)


def install(site: Path, name: str, module: str, entry_points: str) -> None:
    """A package as an installer leaves it behind: a module and its metadata."""
    (site / f"{name}.py").write_text(module)
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def tower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The environment of the documentation, installed."""
    site = tmp_path / "site-packages"
    site.mkdir()
    announced = shown("toml", "project.entry-points")
    assert announced.splitlines()[0] == '[project.entry-points."actfirst.environments"]'
    entry = announced.splitlines()[1].replace('"', "")
    install(site, "tower", shown("python", "class TowerWorld"), f"[actfirst.environments]\n{entry}\n")
    monkeypatch.syspath_prepend(site)
    yield site
    sys.modules.pop("tower", None)


def recipe(folder: Path) -> Path:
    """The recipe of the documentation on top of the pocket one."""
    path = folder / "tower.toml"
    path.write_text(f'extends = "pocket"\n{shown("toml", "floors = 5")}')
    return path


def configured(folder: Path, *more: str) -> Config:
    return resolve(recipe(folder), more)


def test_it_is_complete_in_65_lines() -> None:
    assert len(shown("python", "class TowerWorld").splitlines()) <= 65


class TestTowerContract(EnvironmentContract):
    @pytest.fixture
    def world(self, tower: Path) -> World:
        return open_world(OptionsSection(name="tower", options={"floors": 5}))


def test_a_recipe_names_it_and_sets_its_options(tower: Path, tmp_path: Path) -> None:
    config = configured(tmp_path, "environment.options.floors=6")
    assert config.environment == OptionsSection(name="tower", options={"floors": 6})
    assert len(open_world(config.environment).tasks("train")) == 5
    assert "tower" in available()
    (tmp_path / "again.toml").write_text(dump_toml(config))
    assert resolve(tmp_path / "again.toml") == config


def test_two_episodes_are_rolled_out_in_worker_processes(tower: Path, tmp_path: Path) -> None:
    stage = open_stage(configured(tmp_path).environment)
    assert isinstance(stage.pool, ProcessPool)

    def climbs(request: Request) -> str:
        return (
            f"<think>\nup\n</think>\n\n<action>{'take key' if 'take key' in request.text else 'go up'}</action>"
        )

    async def collect() -> RolloutBatch:
        collector = bench("vanilla", climbs).playing(pool=stage.pool, rules=stage.rules)
        try:
            return await collector.collect(0, stage.world.tasks("train")[:2], TrainingPoint())
        finally:
            await stage.pool.close()

    batch = asyncio.run(collect())
    assert [episode.error for episode in batch.episodes] == [None, None]
    assert [len(episode.turns) for episode in batch.episodes] == [2, 3]
    assert all(episode.final is not None and episode.final.success for episode in batch.episodes)


def test_a_model_is_trained_on_it(tower: Path, tmp_path: Path) -> None:
    from actfirst.training.open import train

    tiny = [text for text in overrides(tmp_path) if not text.startswith("environment.")]
    more = ["run.updates=1", "rollout.tasks_per_batch=2", "learner.batch_size=2", "pool.kind=inline"]
    config = configured(tmp_path, *tiny, *more)
    assert train(config, tmp_path / "run").updates == 1
    assert {str(line["task"]["id"]).split("/")[0] for line in read_episodes(tmp_path / "run")} == {"tower"}  # type: ignore[index]


@pytest.fixture
def tall(tower: Path) -> Iterator[None]:
    """The second environment of the documentation, which brings everything itself, registered as in a notebook."""
    prompts = tower / "tower_prompts"
    prompts.mkdir()
    (prompts / "__init__.py").touch()
    for mode in ("full", "next_action", "inverse_dynamics"):
        goal = " {reference_next_observation}" if mode == "inverse_dynamics" else ""
        for suffix, before in (("", "{action_history} "), ("_no_history", "")):
            text = f"Climb: {before}{{current_observation}} [{{admissible_actions}}]{goal}"
            (prompts / f"{mode}{suffix}.txt").write_text(text)
    (tower / "tall_tower.py").write_text(shown("python", "class TallTowerSection"))
    kind = importlib.import_module("tall_tower").TALL
    yield registry.register_environment(kind)
    del registry._registered[kind.name]
    for module in ("tall_tower", "tower_prompts"):
        sys.modules.pop(module, None)


@pytest.mark.usefixtures("tall")
class TestEverythingItsOwn:
    OWN = ("environment.name=tall-tower", "environment.floors=4", "references.source=straight-up")

    def test_its_section_has_keys_of_its_own(self, tmp_path: Path) -> None:
        config = resolve("pocket", self.OWN)
        assert config.environment.model_dump() == {
            "name": "tall-tower",
            "prompts": "paper",
            "templates": "",
            "floors": 4,
        }
        (tmp_path / "again.toml").write_text(dump_toml(config))
        assert resolve(tmp_path / "again.toml") == config
        with pytest.raises(ConfigError, match=r"environment\.floors = \"many\" .*must be a whole number"):
            resolve("pocket", ["environment.name=tall-tower", "environment.floors=many"])

    def test_its_prompts_and_its_references_are_used(self) -> None:
        config = resolve("pocket", [*self.OWN, "pool.kind=inline"])
        stage = open_stage(config.environment, config.pool)
        task = stage.world.tasks("train")[1]
        _, seen = stage.world.open().reset(task)
        context = TurnContext("climb", (), seen, 1)
        assert render(stage.templates, Mode.FULL, context, 0) == f"Climb: {seen.text} ['go up']"
        made = Maker(stage.kind, stage.world, open_sources(stage.kind, stage.world, ["best"], []), Care())
        reference = made.work(Job(task)).reference
        assert reference is not None
        assert [step.action for step in reference.steps] == ["go up", "go up", "take key"]
        assert reference.source == "straight-up"

    def test_a_built_in_name_cannot_be_taken(self) -> None:
        with pytest.raises(ConfigError, match="part of actfirst"):
            registry.register_environment(replace(registry.find_kind("tall-tower"), name="pocket"))


class TestMistakes:
    def test_a_name_that_nobody_installed_is_refused_with_what_there_is(self, tower: Path) -> None:
        with pytest.raises(ConfigError, match=r'must be one of .*"pocket", .*"tower"'):
            resolve("pocket", ["environment.name=towr"])

    def test_a_key_beside_options_is_refused(self, tower: Path, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"environment\.floors.*there is no such key"):
            configured(tmp_path, "environment.floors=3")

    def test_a_recipe_for_an_environment_that_was_removed_says_so(self) -> None:
        with pytest.raises(ConfigError, match="no installed package has this entry point"):
            open_world(OptionsSection(name="tower"))

    def test_what_a_plug_in_raises_is_an_environment_failure(self, tower: Path) -> None:
        with pytest.raises(EnvironmentFailure, match=r"tower cannot be opened.*floors.*ValueError"):
            open_world(OptionsSection(name="tower", options={"floors": "many"}))

    def test_an_entry_point_that_is_no_kind_is_named(self, tower: Path) -> None:
        install(tower, "odd", "KIND = 3\n", "[actfirst.environments]\nodd = odd:KIND\n")
        with pytest.raises(EnvironmentFailure, match=r"odd \(odd:KIND\) is not an EnvironmentKind: 3"):
            resolve("pocket", ["environment.name=odd"])

    def test_the_doctor_names_a_plug_in_that_does_not_load(self, tower: Path, tmp_path: Path) -> None:
        assert environments.plugins().detail == "tower"
        install(tower, "broken", "import no_such_module\n", "[actfirst.environments]\nbroken = broken:f\n")
        finding = environments.plugins()
        assert finding.state is State.WARN
        assert "broken (broken:f) does not load: ModuleNotFoundError" in finding.detail


def test_all_kinds_are_loaded_without_torch_and_without_a_world() -> None:
    show = (
        "import sys; from actfirst.environments.registry import built_in_kinds as k; k(); print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", show], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "actfirst.environments.webshop.kind" in loaded
    assert not {"torch", "numpy", "transformers"} & set(loaded)
    assert not [name for name in loaded if name.startswith("actfirst.") and name.endswith((".world", ".game"))]


def test_the_list_of_environments_shows_where_each_comes_from(
    tower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = run(capsys, "envs", "list").out
    assert re.search(r"^tower +tower:KIND$", listed, re.MULTILINE)
    assert re.search(r"^pocket +part of actfirst$", listed, re.MULTILINE)
