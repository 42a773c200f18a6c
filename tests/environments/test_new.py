"""`actfirst envs new`: the package that it writes passes its own tests and the contract at once."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from actfirst.environments.base import PromptForms, World
from actfirst.environments.general.package import write_package
from actfirst.environments.general.prompts import PROMPTS, action_values
from actfirst.errors import ConfigError
from actfirst.policy.render import read_templates
from actfirst.reading import read_toml
from actfirst.references.sources import BEST
from tests.cli.runner import run
from tests.environments.contract import EnvironmentContract


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new") / "brook"
    write_package("brook", folder)
    return folder


class TestContract(EnvironmentContract):
    @pytest.fixture
    def world(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> World:
        monkeypatch.syspath_prepend(str(package))
        kind = importlib.import_module("brook.kind").KIND
        monkeypatch.setattr("tests.environments.contract.find_kind", lambda name: kind)
        opened: World = kind.open(kind.section(name="brook"))
        return opened


def test_its_own_tests_pass(package: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    environment = {"PYTHONPATH": ":".join([str(package), *sys.path])}
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_recipe_asks_for_references_that_it_can_make(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(package))
    kind = importlib.import_module("brook.kind").KIND
    assert read_toml(package / "recipe.toml")["references"]["source"] in (BEST, *kind.sources.ways)


def test_no_name_is_left_open(package: Path) -> None:
    for path in package.rglob("*"):
        assert "NAME_OF_WORLD" not in path.name
        assert not path.name.endswith("_txt")
        assert path.is_dir() or path.suffix == ".pyc" or "NAME_OF_WORLD" not in path.read_text()


def test_the_command_writes_it_and_refuses_what_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "envs", "new", "brook").code == 0
    assert (tmp_path / "brook" / "brook" / "templates" / "full.txt").is_file()
    assert "exists" in run(capsys, "envs", "new", "brook").err
    assert "small letters" in run(capsys, "envs", "new", "My World").err
    for taken in ("pocket", "random", "class"):
        assert "is taken" in run(capsys, "envs", "new", taken).err


def test_all_templates_are_installed_with_it(package: Path) -> None:
    kept = read_toml(package / "pyproject.toml")["tool"]["setuptools"]["package-data"]["brook"]
    templates = [path for path in (package / "brook" / "templates").rglob("*") if path.is_file()]
    found = {path for pattern in kept for path in (package / "brook").glob(f"{pattern}/*")}
    assert {path.parent.name for path in templates} == {"templates", "growing"}
    assert set(templates) <= found


@pytest.mark.parametrize(
    ("file", "change", "named"),
    [
        ("full.txt", ("{current_step}", "{curent_step}"), "no placeholder {curent_step}"),
        ("full_no_history.txt", ("{task_description}", "{action_history}"), "no placeholder {action_history}"),
        ("next_action.txt", ("{current_step}", "{reference_next_observation}"), "no placeholder {reference_"),
        ("inverse_dynamics.txt", ("{reference_next_observation}", ""), "lacks {reference_next_observation}"),
        ("full.txt", ("{action_history}", ""), "lacks {action_history}"),
    ],
)
def test_a_wrong_placeholder_is_named_at_start(
    file: str, change: tuple[str, str], named: str, tmp_path: Path
) -> None:
    for entry in (one for one in PROMPTS.folder.iterdir() if one.is_file()):
        text = entry.read_text(encoding="utf-8")
        (tmp_path / entry.name).write_text(text.replace(*change) if entry.name == file else text)
    with pytest.raises(ConfigError, match=named) as refused:
        read_templates(PromptForms(tmp_path, action_values))
    assert file in str(refused.value)


def test_a_missing_template_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"full\.txt"):
        read_templates(PromptForms(tmp_path, action_values))
