"""`actfirst theory`, `bench`, `report` and `lab`: options, what is shown, what is stored, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.lab import lab as lab_module
from actfirst.lab.lab import LabPlan
from tests.cli.runner import run
from tests.cli.tiny_recipe import write_tiny_recipe
from tests.support.report_sources import write_method_run
from tests.support.tiny_models import make_tiny_checkpoint


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_checkpoint(tmp_path_factory.mktemp("model")))


class TestTheory:
    def test_given_latencies(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown = run(capsys, "theory", "--fast", "1", "--full", "10", "--cap", "16", "--json", "out.json")
        assert shown.code == 0
        assert shown.out.splitlines()[1].split() == [
            "given",
            "16",
            "7.69",
            "10.00",
            "0.91",
            "330",
            "17.6",
            "no",
        ]
        (found,) = json.loads(Path("out.json").read_text())["predictions"]
        assert (found["needed_cap"], found["may_gain"], found["least_seconds"]) == (
            pytest.approx(17.6),
            False,
            330.0,
        )

    def test_measured_latencies_say_what_they_are(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(capsys, "bench", "rollout", "--simulated", "--scale", "tiny", "--out", "sim.json").code == 0
        shown = run(capsys, "theory", "--from", "sim.json")
        assert shown.code == 0
        assert "4 tokens, simulated" in shown.out
        assert "8 tokens, simulated" in shown.out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "give --fast and --full"),
            (("--fast", "2", "--full", "1"), "0 < fast <= full"),
            (("--from", "nowhere.json"), "is not a result of `actfirst bench rollout`"),
            (("--from", "x.json", "--fast", "1"), "leave --fast and --full out"),
        ],
    )
    def test_what_is_refused(
        self, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shown = run(capsys, "theory", *arguments)
        assert shown.code == 2
        assert message in " ".join(shown.err.split())


class TestBench:
    def test_simulated_is_said_and_stored(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown = run(capsys, "bench", "rollout", "--simulated", "--scale", "tiny", "--step-ms", "1")
        assert shown.code == 0
        assert "Rollout efficiency (SIMULATED)" in shown.out
        assert "SIMULATED, not measured: a step takes 1 ms" in shown.err
        assert json.loads(Path("runs/bench/rollout-simulated.json").read_text())["simulated"] is True

    def test_a_real_engine(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        settings = ("rollout.generation.prompt_limit=1400", "engine.threads=1")
        shown = run(capsys, "bench", "rollout", *settings, "--model", model, "--scale", "tiny")
        assert shown.code == 0, shown.err
        assert "SIMULATED" not in shown.out
        found = json.loads(Path("runs/bench/rollout-pocket.json").read_text())
        assert (found["simulated"], found["complete"], len(found["points"])) == (False, True, 6)
        assert "without prefix caching" in found["engine"]

    def test_a_cap_that_the_engine_does_not_have_is_refused(
        self, model: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ("engine.max_concurrency=8", "--model", model, "--scale", "tiny")
        shown = run(capsys, "bench", "rollout", *arguments)
        assert shown.code == 2
        assert "engine.max_concurrency = 8 is below the largest cap" in " ".join(shown.err.split())

    def test_quality_of_three_strategies(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        recipe = str(write_tiny_recipe(tmp_path))
        settings = [
            f"rollout.generation.{key}" for key in ("prompt_limit=1400", "first_stage=8", "response_limit=40")
        ]
        arguments = (*settings, "rollout.generation.continuation=8", "--recipe", recipe, "--tasks", "2")
        shown = run(capsys, "bench", "quality", model, *arguments, "--out", "quality.json")
        assert shown.code == 0, shown.err
        strategies, modes = shown.out.split("\ncheckpoint")
        assert [line.split()[1] for line in strategies.splitlines()[1:]] == [
            "Think-then-act",
            "Direct",
            "Guided",
        ]
        assert "mode of fast actions" in modes
        assert "inverse dynamics" in modes
        rows = json.loads(Path("quality.json").read_text())["rows"]
        assert [row["strategy"] for row in rows] == ["think", "direct", "guided"]
        assert all(row["tasks"] == 2 and len(row["episodes"]) == 2 for row in rows)
        before = Path("quality.json").read_text()
        assert run(capsys, "bench", "quality", model, *arguments, "--out", "quality.json").code == 0
        assert Path("quality.json").read_text() == before  # nothing was played again
        alone = run(capsys, "bench", "quality", model, *arguments, "--act", "direct", "--out", "direct.json")
        assert alone.code == 0, alone.err
        (row,) = json.loads(Path("direct.json").read_text())["rows"]
        assert row["strategy"] == "direct"

    def test_quality_needs_a_checkpoint(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown = run(capsys, "bench", "quality", "run.seed=1")
        assert shown.code == 2
        assert "name at least one model" in shown.err

    def test_distance_to_the_teacher(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown = run(
            capsys, "bench", "distance", "pocket:student", "pocket:teacher", "--tasks", "2", "--contexts", "1"
        )
        assert shown.code == 0, shown.err
        assert [line.split()[:2] for line in shown.out.splitlines()[1:3]] == [
            ["pocket:student", "2"],
            ["pocket:teacher", "2"],
        ]
        found = json.loads(Path("runs/bench/distance-pocket.json").read_text())
        assert [row["model"] for row in found["rows"]] == ["pocket:student", "pocket:teacher"]
        assert found["rows"][1]["change"] == pytest.approx(-found["rows"][0]["distance"], abs=1e-3)
        assert len(found["answers"]["pocket:student"]) == 2


class TestReport:
    def test_it_is_written_beside_the_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_method_run(Path("runs/vanilla"), "vanilla", 42, seconds=10.0, solved=2)
        shown = run(capsys, "report", "runs", "--title", "Mine")
        assert shown.code == 0
        assert "<h1>Mine</h1>" in Path("runs/report/index.html").read_text()

    def test_its_figures_are_put_together_with_others(self, capsys: pytest.CaptureFixture[str]) -> None:
        for seed in (42, 43):
            write_method_run(Path(f"runs/{seed}/vanilla"), "vanilla", seed, seconds=10.0, solved=2)
            assert run(capsys, "report", f"runs/{seed}").code == 0
        files = [f"runs/{seed}/report/figures.json" for seed in (42, 43)]
        shown = run(capsys, "figures", *files, "--out", "all.json")
        assert shown.code == 0
        assert "| Vanilla OPD | 42, 43 | 50.0, 50.0 |" in shown.out
        assert run(capsys, "figures", "all.json").out == shown.out

    def test_nothing_to_report_on_is_one_message(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown = run(capsys, "report", "nowhere")
        assert shown.code == 2
        assert "nowhere does not exist" in shown.err


class TestLab:
    @pytest.fixture
    def plans(self, monkeypatch: pytest.MonkeyPatch) -> list[LabPlan]:
        made: list[LabPlan] = []

        def run_lab(plan: LabPlan, say: object) -> list[str]:
            made.append(plan)
            write_method_run(plan.out / "vanilla-seed42", "vanilla", 42, seconds=10.0, solved=2)
            return ["Vanilla OPD, seed 43: no memory left"] if plan.seeds == 9 else []

        monkeypatch.setattr(lab_module, "run_lab", run_lab)
        return made

    def test_all_methods_with_three_seeds_and_then_the_report(
        self, plans: list[LabPlan], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(capsys, "lab").code == 0
        (plan,) = plans
        assert (plan.recipe, plan.seeds, len(plan.methods), plan.overrides) == ("pocket", 3, 10, ())
        assert Path("runs/lab-pocket/report/index.html").is_file()

    def test_options(self, plans: list[LabPlan], capsys: pytest.CaptureFixture[str]) -> None:
        chosen = "vanilla actfirst:rollout.responses=all"
        arguments = (
            "learner.threads=1",
            "--methods",
            chosen,
            "--runs",
            "5",
            "--updates",
            "7",
            "--out",
            "here",
        )
        assert run(capsys, "lab", "pocket", *arguments).code == 0
        assert plans[0].methods == ("vanilla", "actfirst:rollout.responses=all")
        assert plans[0].overrides == ("learner.threads=1", "run.updates=7")
        assert (plans[0].seeds, plans[0].out) == (5, Path("here"))

    def test_failures_are_told_after_the_report(
        self, plans: list[LabPlan], capsys: pytest.CaptureFixture[str]
    ) -> None:
        shown = run(capsys, "lab", "--runs", "9")
        assert shown.code == 1
        assert "Vanilla OPD, seed 43: no memory left" in shown.err
        assert Path("runs/lab-pocket/report/index.html").is_file()

    def test_an_interrupt_says_how_to_go_on(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupted(plan: LabPlan, say: object) -> list[str]:
            raise KeyboardInterrupt

        monkeypatch.setattr(lab_module, "run_lab", interrupted)
        shown = run(capsys, "lab")
        assert shown.code == 130
        assert "the same command goes on" in shown.err
