"""`actfirst train`: what is started, what is only shown, and how failures look."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from actfirst.config.load import dump_toml, resolve
from actfirst.errors import ActfirstError, CheckpointError, ConfigError, RunStopped, TeacherError
from actfirst.runs.run_folder import RunFolder
from tests.cli.runner import install, run


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_recipe_with_overrides_is_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = install(monkeypatch)
    shown = run(capsys, "train", "pocket", "run.updates=3", "learner.learning_rate=1e-5", "--run", "here")
    assert shown.code == 0
    expected = resolve("pocket", ["run.updates=3", "learner.learning_rate=1e-5"])
    assert runtime.calls == [(expected, Path("here"), False)]


def test_options_and_overrides_may_be_mixed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = install(monkeypatch)
    run(capsys, "train", "--run", "here", "pocket", "run.seed=1", "--json", "out.json", "run.updates=3")
    config, _, _ = runtime.calls[0]
    assert (config.run.seed, config.run.updates) == (1, 3)


def test_without_run_the_next_free_folder_is_used_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = install(monkeypatch)
    Path("runs/pocket-1").mkdir(parents=True)
    shown = run(capsys, "train", "pocket")
    assert runtime.calls[0][1] == Path("runs/pocket-2")
    assert "runs/pocket-2" in shown.err


def test_json_holds_the_summary(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    install(monkeypatch)
    run(capsys, "train", "pocket", "run.updates=7", "--json", "out.json")
    assert json.loads(Path("out.json").read_text())["updates"] == 7


def test_a_dry_run_starts_nothing_and_prints_a_recipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = install(monkeypatch)
    shown = run(capsys, "train", "pocket", "run.updates=3", "learner.batch_size=5", "--dry-run")
    assert runtime.calls == []
    assert list(Path().iterdir()) == []
    assert shown.out.startswith("# ActFirst-OPD on pocket: pocket:student learns from pocket:teacher\n")
    assert "3 updates of 5 responses" in shown.out
    Path("again.toml").write_text(shown.out)
    assert resolve("again.toml") == resolve("pocket", ["run.updates=3", "learner.batch_size=5"])


@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_mistakes_are_refused_before_anything_starts(
    dry: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = install(monkeypatch)
    shown = run(capsys, "train", "pocket", "learner.lernin_rate=1", 'evaluation.splits=["a", "a"', *dry)
    assert shown.code == 2
    assert shown.err.startswith("error: 2 mistakes in the configuration of pocket\n")
    assert "did you mean learner.learning_rate?" in shown.err
    assert 'evaluation.splits = "[\\"a\\", \\"a\\""' in shown.err  # brackets are shown, not taken for markup
    assert shown.out == ""
    assert runtime.calls == []
    assert list(Path().iterdir()) == []


def test_a_dry_run_says_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = install(monkeypatch)
    shown = run(capsys, "train", "pocket", "models.student=/nope", "references.path=no.jsonl", "--dry-run")
    assert shown.code == 2
    assert shown.out.startswith("# ActFirst-OPD on pocket: /nope learns from pocket:teacher\n")
    assert "this run cannot begin here" in shown.err
    assert "models.student = '/nope'" in shown.err
    assert "no.jsonl" in shown.err
    assert runtime.calls == []


def test_no_recipe_says_where_to_find_one(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "train")
    assert shown.code == 2
    assert "actfirst recipes list" in shown.err


class TestResume:
    def start(self, *overrides: str) -> None:
        RunFolder.create(Path("here"), dump_toml(resolve("pocket", overrides))).close()

    @pytest.mark.parametrize("recipe", [[], ["pocket", "run.updates=9"]])
    def test_a_run_goes_on_as_it_was_started(
        self, recipe: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runtime = install(monkeypatch)
        self.start("run.updates=9")
        assert run(capsys, "train", *recipe, "--run", "here", "--resume").code == 0
        assert runtime.calls == [(resolve("pocket", ["run.updates=9"]), Path("here"), True)]

    def test_another_configuration_is_refused_and_the_difference_named(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runtime = install(monkeypatch)
        self.start("run.updates=9")
        shown = run(capsys, "train", "pocket", "learner.clip=0.3", "--run", "here", "--resume")
        assert shown.code == 2
        assert "run.updates, learner.clip" in shown.err
        assert runtime.calls == []

    def test_where_its_parts_run_may_change(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runtime = install(monkeypatch)
        self.start()
        shown = run(capsys, "train", "pocket", "runtime.restarts=7", "--run", "here", "--resume")
        assert shown.code == 0, shown.err
        assert runtime.calls[0][0].runtime.restarts == 7

    def test_how_much_is_stored_and_until_when_it_runs_may_change(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runtime = install(monkeypatch)
        self.start()
        settings = ("run.deadline=60", "run.keep_responses=0")
        shown = run(capsys, "train", "pocket", *settings, "--run", "here", "--resume")
        assert shown.code == 0, shown.err
        assert (runtime.calls[0][0].run.deadline, runtime.calls[0][0].run.keep_responses) == (60.0, 0)

    @pytest.mark.parametrize("recipe", [[], ["pocket"]])
    def test_a_run_may_be_made_longer(
        self, recipe: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runtime = install(monkeypatch)
        self.start("run.updates=9")
        shown = run(capsys, "train", *recipe, "run.updates=12", "--run", "here", "--resume")
        assert shown.code == 0, shown.err
        assert runtime.calls == [(resolve("pocket", ["run.updates=12"]), Path("here"), True)]

    def test_but_not_shorter(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        runtime = install(monkeypatch)
        self.start("run.updates=9")
        shown = run(capsys, "train", "run.updates=8", "--run", "here", "--resume")
        assert shown.code == 2
        assert "other settings of run.updates" in shown.err
        assert runtime.calls == []

    def test_resuming_needs_a_folder(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown = run(capsys, "train", "pocket", "--resume")
        assert shown.code == 2
        assert "--run" in shown.err

    def test_resuming_nothing_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown = run(capsys, "train", "--run", "gone", "--resume")
        assert shown.code == 1
        assert "gone holds no run" in shown.err


class TestFailures:
    @pytest.mark.parametrize(
        ("failure", "code"),
        [
            (ConfigError("wrong key"), 2),
            (CheckpointError("broken"), 1),
            (TeacherError("no [log-probs]"), 1),
            (ActfirstError("other"), 1),
        ],
    )
    def test_an_error_of_ours_is_one_message_without_a_traceback(
        self,
        failure: ActfirstError,
        code: int,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        install(monkeypatch, failure)
        shown = run(capsys, "train", "pocket", "--run", "here")
        assert shown.code == code
        assert shown.err.endswith(f"error: {failure}\n")
        assert "Traceback" not in shown.err

    def test_an_interrupt_says_how_to_go_on(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install(monkeypatch, KeyboardInterrupt())
        shown = run(capsys, "train", "pocket", "--run", "here")
        assert shown.code == 130
        assert "continue with: actfirst train --run here --resume" in shown.err

    @pytest.mark.parametrize("code", [130, 143])
    def test_a_stop_says_the_same_and_has_its_own_exit_code(
        self, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install(monkeypatch, RunStopped("stopped", code))
        shown = run(capsys, "train", "pocket", "--run", "here")
        assert shown.code == code
        assert shown.err.endswith("stopped; continue with: actfirst train --run here --resume\n")

    def test_a_bug_is_not_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from actfirst.cli.main import main

        install(monkeypatch, ZeroDivisionError("a bug"))
        with pytest.raises(ZeroDivisionError, match="a bug"):
            main(["train", "pocket", "--run", "here"])

    @pytest.mark.parametrize("file", ["no/such/folder/out.json", "."])
    @pytest.mark.parametrize(
        "command",
        [
            ("train", "pocket", "--run", "here"),
            ("eval", "pocket:student"),
            ("compare", "vanilla"),
            ("doctor",),
            ("references", "build", "pocket", "here.jsonl"),
        ],
    )
    def test_a_result_that_cannot_be_written_is_refused_before_the_work_starts(
        self,
        command: tuple[str, ...],
        file: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        runtime = install(monkeypatch)
        shown = run(capsys, *command, "--json", file)
        assert shown.code == 2
        assert f"--json {file}" in shown.err
        assert runtime.calls == []
        assert list(Path().iterdir()) == []


def test_the_dry_run_of_a_paper_preset_shows_the_papers_constants(capsys: pytest.CaptureFixture[str]) -> None:
    shown = tomllib.loads(run(capsys, "train", "paper/alfworld-1.7b", "--dry-run").out)
    assert shown["learner"]["learning_rate"] == 1e-6
    assert shown["rollout"]["generation"]["first_stage"] == 384
