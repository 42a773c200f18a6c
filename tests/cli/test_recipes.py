"""`actfirst recipes` and `actfirst methods`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from actfirst.config.load import dump_toml, resolve
from actfirst.config.recipe_files import recipe_description, recipe_names, recipe_text
from actfirst.methods.table import METHODS
from tests.cli.runner import run


def test_list_shows_every_recipe_with_its_description(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "recipes", "list").out.splitlines()[1:]
    assert [line.split("  ")[0] for line in lines] == recipe_names()
    assert all(line.endswith(recipe_description(line.split("  ")[0])) for line in lines)


def test_show_prints_the_file_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "recipes", "show", "paper/base").out == recipe_text("paper/base")


def test_show_takes_a_file_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('# mine\nextends = "pocket"\n')
    assert run(capsys, "recipes", "show", str(mine)).out == mine.read_text()
    shown = run(capsys, "recipes", "show", str(tmp_path / "gone.toml"))
    assert shown.code == 2
    assert "does not exist" in shown.err


def test_show_resolved_prints_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "recipes", "show", "paper/webshop-4b", "--resolved").out
    assert shown == dump_toml(resolve("paper/webshop-4b"))
    assert tomllib.loads(shown)["environment"]["turn_limit"] == 15


def test_an_unknown_recipe_is_refused_with_what_is_close(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "recipes", "show", "poket")
    assert shown.code == 2
    assert "did you mean pocket or" in shown.err


@pytest.mark.parametrize(("arguments", "file"), [((), "alfworld-1.7b.toml"), (("mine.toml",), "mine.toml")])
def test_a_copied_recipe_means_the_same(
    arguments: tuple[str, ...],
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run(capsys, "recipes", "copy", "paper/alfworld-1.7b", *arguments)
    assert shown.code == 0
    assert f"actfirst train {file}" in shown.err
    assert resolve(file) == resolve("paper/alfworld-1.7b")


def test_a_copy_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("precious")
    shown = run(capsys, "recipes", "copy", "pocket", str(mine))
    assert (shown.code, mine.read_text()) == (2, "precious")
    assert "exists already" in shown.err


def test_a_copy_must_be_named_like_a_recipe_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "recipes", "copy", "pocket", str(tmp_path / "mine"))
    assert shown.code == 2
    assert "mine.toml" in shown.err


def test_methods_is_the_table_of_methods(capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = run(capsys, "methods").out.splitlines()
    assert head.split("  ")[0] == "method"
    assert [row.split()[0] for row in rows] == list(METHODS)
    (actfirst,) = [row for row in rows if row.startswith("actfirst ")]
    assert "ActFirst-OPD" in actfirst
    assert "Guided(then NextAction)" in actfirst
    assert "deferred" in actfirst
    assert "<function" not in "".join(rows)
