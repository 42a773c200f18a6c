"""The Java process: shared, ended with its last user, replaced when it died, and silent about all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from actfirst.environments.findings import State
from actfirst.environments.scienceworld import checks as doctor
from actfirst.environments.scienceworld import java
from actfirst.environments.scienceworld.environment import ScienceworldPlayer
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.errors import EnvironmentFailure
from tests.environments.scienceworld.conftest import first


@pytest.fixture
def alone(running: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that starts a process of its own, beside the one that other tests share."""
    monkeypatch.setattr(java, "_shared", None)
    yield
    assert java._shared is None, "a test left its process behind"


def pid_of(environment: ScienceworldPlayer) -> int:
    assert environment._simulator is not None
    return environment._simulator._java.pid


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int) -> bool:
    while is_there(pid):  # as long as the test may take
        time.sleep(0.05)
    return True


def test_environments_share_a_process_that_ends_with_the_last_of_them_and_is_replaced_when_it_dies(
    world: ScienceworldWorld, alone: None, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    task = first(world, "find-plant")
    one, two = world.open(), world.open()
    shared = pid_of(one)
    assert pid_of(two) == shared
    before = two.reset(task)

    os.kill(shared, signal.SIGKILL)
    for call in (lambda: two.step("look around"), lambda: one.reset(task)):
        with pytest.raises(
            EnvironmentFailure, match=rf"Java process {shared} died \(exit code -9\).*starts a new"
        ):
            call()
    three = world.open()
    assert pid_of(three) != shared
    assert three.reset(task) == before, "another start of Java plays the same game"
    one.close()
    two.close()
    assert is_there(pid_of(three))
    last = pid_of(three)
    three.close()
    assert gone(last)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


CHILD = """
import os, signal, sys
from actfirst.environments.scienceworld.world import ScienceworldWorld
environment = ScienceworldWorld().open()
print(environment._simulator._java.pid, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["leaves", "killed"])
def test_nothing_is_left_behind_by_an_interpreter_that_did_not_close(end: str, running: None) -> None:
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", CHILD, end], capture_output=True, text=True)
    assert gone(int(ended.stdout))
    assert ended.stderr == ""
    assert ended.returncode == (0 if end == "leaves" else -signal.SIGKILL)


def test_without_the_extra_the_remedies_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_shared", None)
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFailure) as caught:
        ScienceworldWorld().open()
    for remedy in ("pip install 'actfirst[scienceworld]'", "pool.python"):
        assert remedy in str(caught.value)


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: name)
    monkeypatch.setattr(java, "installed_version", lambda name: "1.1.0")
    with pytest.raises(EnvironmentFailure, match=r"scienceworld 1\.1\.0 is installed.*those of 1\.2\.3"):
        java.require_scienceworld()


def test_without_any_java_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentFailure, match=r"needs Java.*pip install 'actfirst\[scienceworld\]'"):
        java.find_java()


def test_a_java_that_does_not_start_is_quoted(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "OPTIONS", ("-XX:NoSuchOption",))
    with pytest.raises(EnvironmentFailure, match="did not start the simulator: Unrecognized VM option"):
        java.acquire()


class TestDoctor:
    def test_an_installed_simulator_is_tried(self, running: None) -> None:
        finding = doctor.scienceworld()
        assert finding.state is State.OK
        assert "admissible commands" in finding.detail

    def test_a_missing_one_comes_with_the_command_that_installs_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(doctor, "find_spec", lambda name: None)
        finding = doctor.scienceworld()
        assert (finding.state, finding.remedy) == (State.MISSING, "pip install 'actfirst[scienceworld]'")

    def test_another_version_is_a_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor, "find_spec", lambda name: name)
        monkeypatch.setattr(doctor, "installed_version", lambda name: "1.1.0")
        assert doctor.scienceworld().state is State.WARN
