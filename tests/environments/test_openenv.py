"""Environments of OpenEnv on a local server: the contract, what is refused, and a short run."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.environments.base import World
from actfirst.environments.openenv.section import OpenEnvSection
from actfirst.environments.registry import open_world
from actfirst.errors import ConfigError
from actfirst.runs.run import open_run
from actfirst.training.open import train
from tests.environments.contract import AnyTextContract
from tests.support.tiny_run import overrides

pytest.importorskip("openenv")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of the test's own, in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "tests.support.openenv_server", str(port)])
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
    """ActFirst-OPD with references that rollouts find: nobody has demonstrated anything here."""
    numbers = "turn_limit=4, train_tasks=20, eval_tasks=4"
    table = f'environment={{name="openenv", url="{url}", observation="text", {numbers}}}'
    given = [one for one in overrides(tmp_path) if not one.startswith(("environment.", "evaluation.splits"))]
    more = [
        "evaluation.splits=['test']",
        "references.source=rollouts",
        "run.updates=2",
        "evaluation.at_end=true",
    ]
    config = resolve("pocket", [*given, table, *more])
    assert train(config, tmp_path / "run").updates == 2
    run = open_run(tmp_path / "run")
    assert {line.task.kind for line in run.episodes()} == {"openenv"}
    assert run.final_success is not None
