"""Third-party environments: the one that the documentation shows is installed and trained on, as it stands there."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actfirst.cli.doctor import environments
from actfirst.cli.doctor.findings import State
from actfirst.config.load import dump_toml, resolve
from actfirst.config.sections import Config, PluginEnvironment
from actfirst.environments.base import World
from actfirst.environments.pool.pool import ProcessPool
from actfirst.environments.registry import available, open_world
from actfirst.environments.rule_table import RULES
from actfirst.errors import ConfigError, EnvironmentFailure
from actfirst.methods.acting import Progress
from actfirst.policy.render import TEMPLATE_SETS
from actfirst.rollout.collect import RolloutBatch
from actfirst.runs.run_folder import read_episodes
from actfirst.training.parts import open_stage
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
    path.write_text(f'extends = "pocket"\n{shown("toml", "options = ")}')
    return path


def configured(folder: Path, *more: str) -> Config:
    return resolve(recipe(folder), more)


def test_it_is_complete_in_under_sixty_lines() -> None:
    assert len(shown("python", "class TowerWorld").splitlines()) < 60


class TestTowerContract(EnvironmentContract):
    @pytest.fixture
    def world(self, tower: Path) -> World:
        return open_world(PluginEnvironment(name="tower", options={"floors": 5}))


def test_a_recipe_names_it_and_sets_its_options(tower: Path, tmp_path: Path) -> None:
    config = configured(tmp_path, "environment.options.floors=6")
    assert config.environment == PluginEnvironment(name="tower", options={"floors": 6})
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
        collector = replace(bench("vanilla", climbs).collector, pool=stage.pool, rules=stage.rules)
        try:
            return await collector.collect(0, stage.world.tasks("train")[:2], Progress())
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
    assert train(config, tmp_path / "run")["updates"] == 1
    assert {str(line["task"]["id"]).split("/")[0] for line in read_episodes(tmp_path / "run")} == {"tower"}  # type: ignore[index]


def test_own_rules_and_prompts_are_registered_as_the_documentation_shows(
    tower: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = tower / "tower_prompts"
    prompts.mkdir()
    (prompts / "__init__.py").touch()
    for mode in ("full", "next_action", "inverse_dynamics"):
        for suffix in ("", "_no_history"):
            (prompts / f"{mode}{suffix}.txt").write_text("Climb: {current_observation} [{admissible_actions}]")
    monkeypatch.setattr("actfirst.environments.rule_table.RULES", dict(RULES))
    monkeypatch.setattr("actfirst.policy.render.TEMPLATE_SETS", dict(TEMPLATE_SETS))
    exec(compile(shown("python", "read_templates"), "docs", "exec"), {})
    from actfirst.environments import rule_table
    from actfirst.policy import render

    assert "tower" in rule_table.RULES
    assert render.TEMPLATE_SETS["tower"].name == "tower"


class TestMistakes:
    def test_a_name_that_nobody_installed_is_refused_with_what_there_is(self, tower: Path) -> None:
        with pytest.raises(ConfigError, match=r'must be one of "pocket", .*"tower"'):
            resolve("pocket", ["environment.name=towr"])

    def test_a_key_beside_options_is_refused(self, tower: Path, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"environment\.floors.*there is no such key"):
            configured(tmp_path, "environment.floors=3")

    def test_a_recipe_for_an_environment_that_was_removed_says_so(self) -> None:
        with pytest.raises(ConfigError, match="no installed package has this entry point"):
            open_world(PluginEnvironment(name="tower"))

    def test_what_a_plug_in_raises_is_an_environment_failure(self, tower: Path) -> None:
        with pytest.raises(EnvironmentFailure, match=r"tower \(tower:open_world\).*floors.*ValueError"):
            open_world(PluginEnvironment(name="tower", options={"floors": "many"}))

    def test_rules_that_nobody_registered_are_named(
        self, tower: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import tower as module  # type: ignore[import-not-found]

        monkeypatch.setattr(module.TowerWorld, "rules", "climbing")
        with pytest.raises(ConfigError, match="transition rules 'climbing', which nobody registered"):
            open_stage(configured(tmp_path).environment)

    def test_the_doctor_names_a_plug_in_that_does_not_load(self, tower: Path, tmp_path: Path) -> None:
        assert environments.plugins().detail == "tower"
        install(tower, "broken", "import no_such_module\n", "[actfirst.environments]\nbroken = broken:f\n")
        finding = environments.plugins()
        assert finding.state is State.WARN
        assert "broken (broken:f) does not load: ModuleNotFoundError" in finding.detail


def test_the_list_of_environments_shows_where_each_comes_from(
    tower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = run(capsys, "envs", "list").out
    assert re.search(r"^tower +tower:open_world$", listed, re.MULTILINE)
    assert re.search(r"^pocket +part of actfirst$", listed, re.MULTILINE)
