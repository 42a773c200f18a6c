"""Environments of OpenEnv on a local server: the contract, what is refused, and short runs, one on what it ships."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actfirst.environments.base import World
from actfirst.environments.openenv.section import OpenEnvSection
from actfirst.environments.registry import open_world
from actfirst.errors import ConfigError
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.environments.contract import AnyTextContract
from tests.support.tiny_run import world_config

pytest.importorskip("openenv")


@contextmanager
def served(*command: str, at: Path | None = None) -> Iterator[str]:
    """A server of the test's own, in a process of its own; its port is the last word of its command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, *command, str(port)], cwd=at)
    try:
        for _ in range(1200):
            assert server.poll() is None, "the server ended"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served("-m", "tests.support.openenv_server") as address:
        yield address


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The environment that OpenEnv ships: what `openenv init` writes, as it is."""
    folder = tmp_path_factory.mktemp("openenv")
    begin = "import sys; from openenv.cli.__main__ import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", begin, "init", "echo_env", "-o", str(folder)], check=True)
    with served("-m", "echo_env.server.app", "--host", "127.0.0.1", "--port", at=folder) as address:
        yield address


def section(url: object, **more: object) -> OpenEnvSection:
    given = {"url": url, "observation": "text", "train_tasks": 20, "eval_tasks": 4, **more}
    return OpenEnvSection.model_validate(given)


class TestContract(AnyTextContract):
    turns = 4
    moves = ("pmal", "flehs", "window")

    @pytest.fixture
    def world(self, url: str) -> World:
        return open_world(section(url))


def test_a_task_is_solved_by_text(url: str) -> None:
    world = open_world(section(url))
    environment = world.open()
    _, first = environment.reset(world.tasks("train")[0])
    word = first.text.split()[1]
    wrong, right = environment.step("nothing"), environment.step(word[::-1])
    assert wrong.text == f"nothing is not {word} backwards."
    assert (right.text, right.done, right.success, right.score) == ("Right.", True, True, 100.0)
    assert environment.step("more").done
    environment.close()


def test_without_a_field_all_of_an_observation_is_shown(url: str) -> None:
    world = open_world(section(url, observation=""))
    environment = world.open()
    assert '"text": "Say ' in environment.reset(world.tasks("train")[0])[1].text
    environment.close()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"url": "http://127.0.0.1:9"}, "no OpenEnv server answers"),
        ({"action": "nope"}, "has the fields"),
        ({"observation": "nope"}, "no field of the server's observations"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(url: str, change: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        open_world(section(**{"url": url, **change}))


@pytest.mark.slow
def test_a_short_run(url: str, tmp_path: Path) -> None:
    table = f'name="openenv", url="{url}", observation="text", turn_limit=4, train_tasks=20, eval_tasks=4'
    assert train(world_config(tmp_path, table), tmp_path / "run").updates == 2
    run = open_run(tmp_path / "run")
    assert {line.task.kind for line in run.episodes()} == {"openenv"}
    assert run.final_success is not None


@pytest.mark.slow
def test_a_short_run_on_the_environment_that_openenv_ships(echo: str, tmp_path: Path) -> None:
    """It gives back what it is told, pays for length and never ends, so nothing succeeds there."""
    world = open_world(section(echo, observation="echoed_message"))
    environment = world.open()
    _, first = environment.reset(world.tasks("train")[0])
    assert first.text == "Echo Env environment ready!"
    said = environment.step("hello")
    assert (said.text, said.done) == ("hello", False)
    environment.close()
    table = f'name="openenv", url="{echo}", observation="echoed_message", turn_limit=4, train_tasks=20, eval_tasks=4'
    one = (
        "pool.kind=processes",
        "pool.workers=1",
        "pool.environments_per_worker=1",
    )  # the server takes one session
    assert train(world_config(tmp_path, table, *one), tmp_path / "run").updates == 2
    run = open_run(tmp_path / "run")
    assert not [line.error for line in run.episodes() if line.error]
    assert {len(line.turns) for line in run.episodes()} == {4}
    assert run.final_success == 0.0
