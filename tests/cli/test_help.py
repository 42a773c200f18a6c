"""`actfirst --help` is instant and teaches by example."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.cli.runner import run

HEAVY = ("torch", "transformers", "numpy", "matplotlib")

SHOW_HELP = """
import sys
from actfirst.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("LOADED", *(name for name in {heavy} if name in sys.modules), file=sys.stderr)
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
    )


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["recipes", "--help"], ["recipes", "list"]]
)
def test_nothing_heavy_is_imported_to_show_help_or_recipes(arguments: list[str]) -> None:
    shown = python(SHOW_HELP.format(heavy=HEAVY), *arguments)
    assert shown.stderr.split("LOADED")[1].split() == []


def test_help_costs_less_than_half_a_second_of_processor_time() -> None:
    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    python("from actfirst.cli.main import main; main()", "--help")
    assert spent() - before < 0.5


def test_dry_runs_load_no_torch() -> None:
    shown = python(SHOW_HELP.format(heavy=("torch", "transformers")), "train", "pocket", "--dry-run")
    assert shown.stderr.split("LOADED")[1].split() == []


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
