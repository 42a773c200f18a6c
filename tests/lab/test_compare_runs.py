"""Which runs `actfirst compare` makes, in which order, and which it does not make again."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from actfirst.config.load import dump_toml, resolve
from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab import compare_runs
from actfirst.lab.compare_runs import PlannedRun, Points, collect, make_runs, parse_spec, plan_runs

# Stands in for `actfirst train`: says what it was asked and leaves a finished run behind.
TRAINER = """
import sys
from pathlib import Path
from actfirst.config.load import dump_toml, resolve
from tests.support.run_folders import write_run
words = sys.argv[1:]
folder = Path(words[words.index("--run") + 1])
if "--resume" in words:
    print("update 8, resumed")
    config = resolve(folder / "config.toml")
    import shutil; shutil.rmtree(folder)
else:
    config = resolve(words[0], [word for word in words if "=" in word])
write_run(folder, seed=config.run.seed, seconds=10.0, curve=[(0, 0.0, 1.0), (8, 10.0, 2.0)])
(folder / "config.toml").write_text(dump_toml(config))
print("what to try next")
print("update 8,", config.rollout.method)
"""


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(compare_runs, "_COMMAND", (sys.executable, str(script)))


class TestSpecs:
    def test_a_plain_method_has_its_title(self) -> None:
        spec = parse_spec("vanilla")
        assert (spec.label, spec.slug, spec.overrides) == ("Vanilla OPD", "vanilla", ())

    def test_the_papers_exact_form_is_named_by_its_responses(self) -> None:
        spec = parse_spec("actfirst:rollout.responses=all")
        assert (spec.label, spec.slug) == ("ActFirst-OPD (all)", "actfirst-all")

    def test_several_overrides_and_lists(self) -> None:
        spec = parse_spec("actfirst:learner.betas=[0.9, 0.95],learner.batch_size=8")
        assert spec.overrides == ("learner.betas=[0.9, 0.95]", "learner.batch_size=8")
        assert spec.label == "ActFirst-OPD (betas=[0.9, 0.95], batch_size=8)"

    def test_an_unknown_method_is_refused_with_a_suggestion(self) -> None:
        with pytest.raises(ConfigError, match="did you mean vanilla"):
            parse_spec("vanila")


class TestPlan:
    def test_the_order_rotates_from_seed_to_seed(self, tmp_path: Path) -> None:
        planned = plan_runs(["vanilla", "actfirst", "replay-50"], "pocket", ["run.seed=1"], 4, tmp_path)
        order = [(run.seed, run.spec.method) for run in planned]
        assert order == [
            *((1, method) for method in ("vanilla", "actfirst", "replay-50")),
            *((2, method) for method in ("replay-50", "vanilla", "actfirst")),
            *((3, method) for method in ("actfirst", "replay-50", "vanilla")),
            *((4, method) for method in ("vanilla", "actfirst", "replay-50")),
        ]

    def test_every_run_is_evaluated_along_the_way_and_the_teacher_once(self, tmp_path: Path) -> None:
        planned = plan_runs(["vanilla", "actfirst"], "pocket", ["run.updates=60"], 2, tmp_path)
        configs = [resolve("pocket", run.overrides) for run in planned]
        assert {config.evaluation.every for config in configs} == {15}
        assert all(config.evaluation.at_start and config.evaluation.at_end for config in configs)
        assert {config.evaluation.start_tasks for config in configs} == {0}, "points of equal size"
        assert [config.evaluation.teacher for config in configs] == [True, False, False, False]

    def test_a_recipes_own_points_are_kept_unless_the_run_is_too_short_for_them(self, tmp_path: Path) -> None:
        for updates, every in ((60, 15), (12, 2)):
            (planned,) = plan_runs(["vanilla"], "pocket", [f"run.updates={updates}"], 1, tmp_path)
            assert resolve("pocket", planned.overrides).evaluation.every == every

    @pytest.mark.parametrize("asked", [("vanilla", ["evaluation.every=0"]), ("vanilla:evaluation.every=0", [])])
    def test_what_is_asked_for_is_not_overridden(self, asked: tuple[str, list[str]], tmp_path: Path) -> None:
        method, settings = asked
        (planned,) = plan_runs([method], "pocket", [*settings, "evaluation.at_start=false"], 1, tmp_path)
        evaluation = resolve("pocket", planned.overrides).evaluation
        assert (evaluation.every, evaluation.at_start, evaluation.at_end) == (0, False, True)

    def test_or_runs_keep_checkpoints_to_be_evaluated_afterwards(self, tmp_path: Path) -> None:
        (planned,) = plan_runs(["vanilla"], "pocket", ["run.updates=60"], 1, tmp_path, Points.STORED)
        config = resolve("pocket", planned.overrides)
        assert (config.checkpoint.every, config.checkpoint.keep) == (10, 60)
        assert (config.evaluation.every, config.evaluation.at_end, config.evaluation.teacher) == (
            0,
            False,
            False,
        )

    def test_settings_of_a_method_are_its_own(self, tmp_path: Path) -> None:
        names = ["actfirst", "actfirst:rollout.responses=all"]
        planned = plan_runs(names, "pocket", ["rollout.responses=admitted", "evaluation.every=3"], 1, tmp_path)
        configs = [resolve("pocket", run.overrides) for run in planned]
        assert [config.rollout.responses for config in configs] == ["admitted", "all"]
        assert {config.evaluation.every for config in configs} == {3}

    def test_a_method_named_twice_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="named twice"):
            plan_runs(["vanilla", "vanilla"], "pocket", [], 1, tmp_path)

    def test_a_mistake_in_one_method_is_found_before_anything_runs(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"rollout\.responses"):
            plan_runs(["vanilla", "actfirst:rollout.responses=some"], "pocket", [], 1, tmp_path)

    def test_a_folder_made_with_other_settings_is_refused(self, tmp_path: Path) -> None:
        (planned,) = plan_runs(["vanilla"], "pocket", [], 1, tmp_path)
        planned.folder.mkdir()
        (planned.folder / "config.toml").write_text(dump_toml(resolve("pocket", planned.overrides)))
        assert plan_runs(["vanilla"], "pocket", [], 1, tmp_path) == [planned]
        with pytest.raises(ConfigError, match=r"other settings of learner\.learning_rate"):
            plan_runs(["vanilla"], "pocket", ["learner.learning_rate=1e-5"], 1, tmp_path)


@pytest.mark.usefixtures("trainer")
class TestRuns:
    def make(self, planned: list[PlannedRun]) -> list[tuple[str, int, str]]:
        told: list[tuple[str, int, str]] = []
        make_runs(planned, "pocket", lambda run, place, line: told.append((run.spec.method, place, line)))
        return told

    def test_missing_runs_are_made_and_compared(self, tmp_path: Path) -> None:
        planned = plan_runs(["vanilla", "actfirst"], "pocket", ["run.seed=1"], 1, tmp_path / "out")
        assert self.make(planned) == [
            ("vanilla", 1, "update 8, vanilla"),
            ("actfirst", 2, "update 8, actfirst"),
        ]
        assert (tmp_path / "out" / "vanilla-seed1.log").read_text() == "what to try next\nupdate 8, vanilla\n"
        comparison = collect(planned)
        assert [method.label for method in comparison.methods] == ["Vanilla OPD", "ActFirst-OPD"]

    def test_a_finished_run_is_kept_and_an_unfinished_one_resumed(self, tmp_path: Path) -> None:
        planned = plan_runs(["vanilla", "actfirst"], "pocket", [], 1, tmp_path / "out")
        self.make(planned)
        (planned[1].folder / "summary.json").unlink()
        told = self.make(planned)
        assert told[0] == ("vanilla", 1, "finished before")
        assert [line for _, _, line in told[1:]] == ["update 8, resumed", "update 8, actfirst"]

    def test_a_run_that_fails_says_what_it_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        failing = (sys.executable, "-c", "import sys; print('no memory left'); sys.exit(3)")
        monkeypatch.setattr(compare_runs, "_COMMAND", failing)
        planned = plan_runs(["vanilla"], "pocket", [], 1, tmp_path / "out")
        with pytest.raises(RunFolderError, match=r"exit code 3(.|\n)*no memory left"):
            self.make(planned)

    def test_an_interrupted_run_interrupts_the_comparison(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compare_runs, "_COMMAND", (sys.executable, "-c", "import sys; sys.exit(130)"))
        planned = plan_runs(["vanilla"], "pocket", [], 1, tmp_path / "out")
        with pytest.raises(KeyboardInterrupt):
            self.make(planned)

    def test_a_request_to_end_ends_the_run_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        waiting = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("update 1", flush=True)
    while True:
        time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted", file=open(sys.argv[1], "w"))
"""
        told = tmp_path / "told"
        monkeypatch.setattr(compare_runs, "_COMMAND", (sys.executable, "-c", waiting, str(told)))
        planned = plan_runs(["vanilla"], "pocket", [], 1, tmp_path / "out")
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            make_runs(planned, "pocket", lambda run, place, line: os.kill(os.getpid(), signal.SIGTERM))
        assert told.read_text() == "interrupted\n"
        assert signal.getsignal(signal.SIGTERM) is before

    def test_a_folder_that_cannot_be_made_is_named(self) -> None:
        planned = plan_runs(["vanilla"], "pocket", [], 1, Path("/proc/x"))
        with pytest.raises(RunFolderError, match="cannot write /proc/x"):
            self.make(planned)


def test_runs_are_made_by_the_command_itself() -> None:
    assert (sys.executable, "-m", "actfirst", "train") == compare_runs._COMMAND
