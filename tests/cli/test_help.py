"""`actfirst --help` loads nothing that it does not show, and teaches by example."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from actfirst.cli.main import app
from tests.cli.runner import run

HEAVY = {"torch", "transformers", "numpy", "matplotlib", "tokenizers", "safetensors", "psutil", "jinja2", "ray"}

LOADED = """
import sys
from typing import Any
from actfirst.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("LOADED", *sys.modules, file=sys.stderr)
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it is done."""
    command = [sys.executable, "-c", LOADED, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(shown.stderr.split("LOADED")[1].split())


def test_help_loads_the_commands_and_nothing_behind_them() -> None:
    found = loaded("--help")
    own = {name for name in found if name.partition(".")[0] == "actfirst"}
    assert {name for name in own if not name.startswith("actfirst.cli")} <= {
        "actfirst",
        "actfirst.errors",
        "actfirst.methods",
        "actfirst.methods.strategies",  # the names of --act
        "actfirst.terminal",
        "actfirst.terminal.visible",  # how everything is printed
    }
    assert not found & (HEAVY | {"pydantic"})
    assert len(found) < 600  # about 400, most of them of the command line's own library


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--help"],
        ["bench", "rollout", "--help"],
        ["recipes", "list"],
        ["methods"],
        ["recipes", "show", "pocket"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_loaded_to_show_help_or_recipes(arguments: list[str]) -> None:
    assert not loaded(*arguments) & HEAVY


def test_help_teaches_with_commands_that_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "--help")
    assert shown.code == 0
    for example in ("actfirst train pocket", "actfirst recipes list", "--resume", "--dry-run"):
        assert example in shown.out
    for command in ("train", "recipes", "methods"):
        assert command in shown.out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    from actfirst import __version__

    assert run(capsys, "--version").out == f"actfirst {__version__}\n"


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "trian")
    assert shown.code == 2
    assert "train" in shown.err


def test_an_option_means_the_same_in_all_commands() -> None:
    """What is a count in one command is no list, folder or flag in another."""
    kinds: dict[str, dict[str, list[str]]] = {}

    def walk(command: Any, name: str) -> None:
        for part, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{name} {part}".strip())
        once = [option for option in command.params if name and not option.multiple]
        for spelled, option in ((text, one) for one in once for text in one.opts):
            kind = option.type_descriptor.annotation
            kinds.setdefault(spelled, {}).setdefault(getattr(kind, "__name__", str(kind)), []).append(name)

    walk(get_command(app), "")
    assert len(kinds) > 50
    options = {spelled: found for spelled, found in kinds.items() if spelled.startswith("--")}
    assert {spelled: found for spelled, found in options.items() if len(found) > 1} == {}
