"""`make train` and `make test` do their own set-up, once, in the right environment."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def would_run(project: Path, target: str, **environment: str) -> list[str]:
    """The commands that make would run, without any of the caller's make or virtual environment."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    made = subprocess.run(
        ["make", "--dry-run", target],
        cwd=project,
        env=plain | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in made.stdout.splitlines() if not line.startswith("touch")]


def pretend_installed(venv: Path) -> None:
    (venv / "bin").mkdir(parents=True)
    for name in ("bin/python", ".actfirst-installed", ".actfirst-dev-installed"):
        (venv / name).touch()


def step(commands: list[str], part: str) -> str:
    """The command that contains some text."""
    return next(command for command in commands if part in command)


def test_on_a_fresh_machine_train_makes_an_environment_installs_and_trains(project: Path) -> None:
    commands = would_run(project, "train")
    made = commands.index("python3 -m venv .venv")
    installing = step(commands, ".venv/bin/python -m pip install --editable .")
    assert "--no-deps --require-hashes --requirement requirements.lock && " in installing
    assert made < commands.index(installing) < len(commands) - 1
    assert commands[-1] == ".venv/bin/actfirst train pocket"


def test_on_a_fresh_machine_test_installs_the_tools_too(project: Path) -> None:
    commands = would_run(project, "test")
    assert step(commands, "--no-deps --require-hashes --requirement requirements-dev.lock")
    assert ".venv/bin/python -m pip install --editable '.[dev]'" in step(commands, "[dev]")
    assert commands[-1] == ".venv/bin/python -m pytest"


def test_docs_are_built_by_their_own_tools_and_a_warning_is_an_error(project: Path) -> None:
    commands = would_run(project, "docs")
    assert ".venv/bin/python -m pip install --editable '.[docs]'" in step(commands, "[docs]")
    assert step(commands, "mkdocs").endswith(".venv/bin/mkdocs build --quiet --strict")


def test_an_active_environment_is_used(project: Path, tmp_path: Path) -> None:
    active = tmp_path / "active"
    pretend_installed(active)
    said, command = would_run(project, "train", VIRTUAL_ENV=str(active))
    assert said.startswith("echo ")
    assert command == f"{active}/bin/actfirst train pocket"


def test_nothing_is_installed_twice(project: Path) -> None:
    pretend_installed(project / ".venv")
    assert would_run(project, "test") == [".venv/bin/python -m pytest"]


class TestInstalling:
    """With a pip and an actfirst that only say what they were asked."""

    PYTHON = """#!/bin/sh
case "$*" in
  *"import torch"*) exit ${TORCH_MISSING:-1};;
  *pip*) echo "pip was asked: $*"; for n in $(seq 200); do echo "Collecting package $n"; done; exit ${PIP_FAILS:-0};;
esac
"""

    @pytest.fixture
    def make(self, project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        binaries = project / ".venv" / "bin"
        binaries.mkdir(parents=True)
        for name, text in (("python", self.PYTHON), ("actfirst", "#!/bin/sh\necho trained\n")):
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)
        tools = project / "tools"  # a PATH in which there is no nvidia-smi
        tools.mkdir()
        for name in ("sh", "sed", "tail", "touch", "seq", "make", "grep"):
            (tools / name).symlink_to(shutil.which(name) or "")
        (tools / "uname").write_text('#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo x86_64\n')
        (tools / "uname").chmod(0o755)

        def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["make", "train", *arguments],
                cwd=project,
                env={"PATH": str(tools), "HOME": str(project), **environment},
                capture_output=True,
                text=True,
                check=False,
            )

        return run

    def test_each_step_is_a_line_and_the_rest_is_in_a_log(
        self, make: Callable[..., subprocess.CompletedProcess[str]], project: Path
    ) -> None:
        made = make(TORCH_MISSING="0")
        assert made.returncode == 0, made.stderr
        first, *_, last = made.stdout.splitlines()
        assert first == "installing actfirst and what it needs (minutes the first time; log: .venv/install.log)"
        assert last == "trained"
        assert len(made.stdout.splitlines()) == 3
        assert "Collecting package 200" in (project / ".venv/install.log").read_text()

    def test_a_failure_shows_the_end_of_the_log_and_installs_again_next_time(
        self, make: Callable[..., subprocess.CompletedProcess[str]]
    ) -> None:
        made = make(PIP_FAILS="1")
        assert made.returncode != 0
        assert "Collecting package 200" in made.stderr
        assert "error: this failed; all that it said is in .venv/install.log" in made.stderr
        assert make().returncode == 0

    def test_cuda_without_a_gpu_is_told_before_it_is_downloaded(
        self, make: Callable[..., subprocess.CompletedProcess[str]]
    ) -> None:
        note, how, installing, *_ = make().stdout.splitlines()
        assert "no GPU is found here" in note
        assert "make train TORCH=cpu" in how
        assert installing.startswith("installing actfirst")

    def test_the_small_build_comes_from_its_own_index_in_the_same_version(
        self, make: Callable[..., subprocess.CompletedProcess[str]], project: Path
    ) -> None:
        made = make("TORCH=cpu")
        assert "no GPU" not in made.stdout
        asked = [line for line in (project / ".venv/install.log").read_text().splitlines() if "asked" in line]
        version = re.search(r'"(torch==[^"]+)"', (ROOT / "pyproject.toml").read_text())
        assert version is not None
        assert asked == [
            f"pip was asked: -m pip install --index-url https://download.pytorch.org/whl/cpu {version[1]}",
            "pip was asked: -m pip install --no-deps --require-hashes --requirement requirements.lock",
            "pip was asked: -m pip install --editable .",
        ]


def test_a_change_of_pyproject_installs_again(project: Path) -> None:
    pretend_installed(project / ".venv")
    later = (project / ".venv/.actfirst-installed").stat().st_mtime + 10
    os.utime(project / "pyproject.toml", (later, later))
    assert ".venv/bin/python -m pip install --editable ." in "\n".join(would_run(project, "train"))


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_locks_hold_what_pyproject_pins_each_with_hashes_and_torch_is_left_out(lock: str) -> None:
    pinned = re.findall(r'^    "([a-z-]+==[^"]+)",', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    default = [one for one in pinned if one.split("==")[0] in {"transformers", "pydantic", "rich", "typer"}]
    packages = (ROOT / lock).read_text().split("\n")
    named = [line.removesuffix(" \\") for line in packages if re.match(r"[a-z]", line)]
    assert default
    assert set(default) <= set(named)
    assert not [name for name in named if name.startswith(("torch==", "nvidia", "actfirst"))]
    for line, following in itertools.pairwise(packages):
        assert not re.match(r"[a-z]", line) or following.startswith("    --hash=sha256:")
