"""`actfirst compare`: every number of the table from run folders written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab.compare import QUANTITIES, Comparison, MethodRuns, compare, seconds_until, spread_over_time
from actfirst.lab.compare_table import compare_rows, markdown
from actfirst.runs.lines import EvaluationPoint
from actfirst.runs.run import open_run
from tests.support.run_folders import NO_ALIGNMENT, write_run

SLOW = [(0, 0.0, 10.0), (4, 100.0, 40.0), (8, 200.0, 60.0)]
FAST = [(0, 0.0, 10.0), (4, 40.0, 60.0), (8, 80.0, 70.0)]


def point(update: int, seconds: float, success: float) -> EvaluationPoint:
    return EvaluationPoint(who="student", update=update, training_seconds=seconds, success_rate=success)


def two_methods(tmp_path: Path) -> Comparison:
    """Slow runs of 200 and 220 s that end at 60 and 50 %; fast runs of 80 and 110 s that end at 70 %."""
    slow = [
        write_run(tmp_path / "slow1", seed=1, seconds=200.0, curve=SLOW, alignment=NO_ALIGNMENT),
        write_run(
            tmp_path / "slow2",
            seed=2,
            seconds=220.0,
            curve=[(0, 0.0, 10.0), (4, 110.0, 30.0), (8, 220.0, 50.0)],
            alignment=NO_ALIGNMENT,
        ),
    ]
    fast = [
        write_run(tmp_path / "fast2", seed=2, seconds=110.0, curve=FAST),
        write_run(tmp_path / "fast1", seed=1, seconds=80.0, curve=FAST),
    ]
    return compare(
        [
            MethodRuns("Slow", "slow", tuple(map(open_run, slow))),
            MethodRuns("Fast", "fast", tuple(map(open_run, fast))),
        ]
    )


class TestReadingARun:
    def test_counts_are_sums_over_batches_and_balances_come_from_the_summary(self, tmp_path: Path) -> None:
        run = open_run(write_run(tmp_path / "run", seed=5, seconds=100.0, curve=SLOW))
        summary = run.summary
        assert (run.seed, summary.updates, run.final_success, summary.success_rate.teacher) == (
            5,
            8,
            60.0,
            80.0,
        )
        found = {quantity.key: quantity.of(run) for quantity in QUANTITIES}
        counted = ("transitions", "fast_tokens", "full_tokens", "scoring_seconds")
        assert [found[key] for key in counted] == [40, 200, 500, 1.0]
        assert (found["responses_generated"], found["responses_trained"]) == (20, 17)
        # 6 of 8 first actions, 4 of 8 trajectories, 20 of 40 turns
        assert run.alignment.rates() == {"first_action": 75.0, "full_trajectory": 50.0, "turn_coverage": 50.0}

    def test_a_run_without_summary_is_not_finished(self, tmp_path: Path) -> None:
        folder = write_run(tmp_path / "run", seed=5, seconds=100.0, curve=SLOW)
        (folder / "summary.json").unlink()
        with pytest.raises(RunFolderError, match="no finished run"):
            _ = open_run(folder).summary

    def test_a_line_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        folder = write_run(tmp_path / "run", seed=5, seconds=100.0, curve=SLOW)
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"type": "evaluation", "who": "student"}) + "\n")
        with pytest.raises(RunFolderError, match="line 7 of"):
            _ = open_run(folder).lines


class TestSecondsUntil:
    CURVE = tuple(point(*values) for values in SLOW)

    @pytest.mark.parametrize(
        ("target", "seconds"),
        [(25.0, 50.0), (40.0, 100.0), (50.0, 150.0), (60.0, 200.0), (5.0, 0.0), (60.1, None)],
    )
    def test_is_linear_between_evaluations(self, target: float, seconds: float | None) -> None:
        assert seconds_until(self.CURVE, target) == (None if seconds is None else pytest.approx(seconds))

    def test_the_first_crossing_counts_even_if_success_falls_again(self) -> None:
        curve = [point(0, 0.0, 0.0), point(1, 10.0, 50.0), point(2, 20.0, 20.0), point(3, 30.0, 60.0)]
        assert seconds_until(curve, 40.0) == pytest.approx(8.0)

    def test_no_evaluations_reach_nothing(self) -> None:
        assert seconds_until([], 1.0) is None


class TestComparison:
    def test_speedup_is_paired_by_seed_before_it_is_averaged(self, tmp_path: Path) -> None:
        slow, fast = two_methods(tmp_path).methods
        assert fast.speedup.per_seed == (200.0 / 80.0, 220.0 / 110.0)
        assert fast.speedup.mean == pytest.approx(2.25)
        assert fast.speedup.deviation == pytest.approx(0.5 / 2**0.5)
        assert slow.speedup.per_seed == (1.0, 1.0)

    def test_the_target_is_the_first_methods_final_mean(self, tmp_path: Path) -> None:
        comparison = two_methods(tmp_path)
        assert comparison.target == pytest.approx(55.0)
        assert comparison.seeds == (1, 2)

    def test_a_first_run_that_never_reaches_the_target_makes_the_ratio_a_lower_bound(
        self, tmp_path: Path
    ) -> None:
        slow, fast = two_methods(tmp_path).methods
        assert slow.reach is not None
        assert fast.reach is not None
        # Slow seed 1 crosses 55 % at 175 s; seed 2 ends at 50 % and counts with all its 220 s.
        assert slow.reach.seconds.per_seed == pytest.approx((175.0, 220.0))
        assert (slow.reach.arrived, slow.reach.sooner) == (1, None)
        # Fast crosses 55 % at 0.9 of 40 s in both seeds.
        assert fast.reach.seconds.per_seed == pytest.approx((36.0, 36.0))
        assert fast.reach.sooner is not None
        assert fast.reach.sooner.per_seed == pytest.approx((175.0 / 36.0, 220.0 / 36.0))
        assert fast.reach.sooner_is_lower_bound

    def test_a_method_that_does_not_arrive_in_every_seed_has_no_ratio(self, tmp_path: Path) -> None:
        good = open_run(write_run(tmp_path / "good", seed=1, seconds=200.0, curve=SLOW))
        bad = open_run(
            write_run(tmp_path / "bad", seed=1, seconds=50.0, curve=[(0, 0.0, 10.0), (8, 50.0, 59.0)])
        )
        _, late = compare([MethodRuns("Good", "g", (good,)), MethodRuns("Bad", "b", (bad,))]).methods
        assert late.reach is not None
        assert (late.reach.arrived, late.reach.sooner) == (0, None)

    def test_quantities_have_sample_deviations_and_are_left_out_where_nobody_measured(
        self, tmp_path: Path
    ) -> None:
        slow, fast = two_methods(tmp_path).methods
        assert slow.quantities["final_success"].mean == pytest.approx(55.0)
        assert slow.quantities["final_success"].deviation == pytest.approx(10.0 / 2**0.5)
        assert slow.quantities["rollout_seconds"].per_seed == pytest.approx((120.0, 132.0))
        assert fast.quantities["first_action"].mean == pytest.approx(75.0)
        assert "first_action" not in slow.quantities

    def test_a_checkpoint_on_the_way_is_not_the_end_of_a_finished_run(self, tmp_path: Path) -> None:
        run = open_run(write_run(tmp_path / "run", seed=42, seconds=9.0, curve=[(0, 0.0, 5.0), (4, 5.0, 60.0)]))
        assert run.summary.updates > 4
        assert run.final is None
        assert run.final_success is None

    def test_different_seeds_cannot_be_paired(self, tmp_path: Path) -> None:
        one = open_run(write_run(tmp_path / "one", seed=1, seconds=10.0, curve=SLOW))
        two = open_run(write_run(tmp_path / "two", seed=2, seconds=10.0, curve=SLOW))
        with pytest.raises(ConfigError, match="same seeds"):
            compare([MethodRuns("One", "one", (one,)), MethodRuns("Two", "two", (two,))])

    def test_runs_without_evaluations_still_compare_in_time(self, tmp_path: Path) -> None:
        runs = [open_run(write_run(tmp_path / name, seed=1, seconds=10.0, curve=[])) for name in "ab"]
        comparison = compare([MethodRuns(name, name, (run,)) for name, run in zip("ab", runs, strict=True)])
        assert comparison.target is None
        assert comparison.methods[1].speedup.mean == 1.0
        assert "final_success" not in comparison.methods[0].quantities
        assert markdown(comparison, "x")

    def test_the_result_is_json(self, tmp_path: Path) -> None:
        written = json.loads(json.dumps(two_methods(tmp_path).to_json()))
        assert [method["label"] for method in written["methods"]] == ["Slow", "Fast"]
        assert written["methods"][1]["reach"]["sooner_is_lower_bound"] is True
        assert written["methods"][0]["runs"][0]["curve"][-1] == [8, 200.0, 60.0]


class TestTable:
    def test_one_row_per_quantity_and_one_column_per_method(self, tmp_path: Path) -> None:
        rows = {row[0]: row[1:] for row in compare_rows(two_methods(tmp_path))}
        assert rows[""] == ["Slow", "Fast"]
        assert rows["final SR (%)"] == ["55.0 ± 7.1", "70.0 ± 0.0"]
        assert rows["training speedup"] == ["1.00 ± 0.00×", "2.25 ± 0.35×"]
        assert rows["time to 55.0 % SR (s)"] == ["≥ 197.5 ± 31.8 (1 of 2 runs)", "36.0 ± 0.0"]
        assert rows["reached sooner"] == ["–", "≥ 5.49 ± 0.88×"]
        assert rows["first-action alignment (%)"] == ["–", "75.0 ± 0.0"]

    def test_markdown_has_a_rectangular_table_and_says_how_it_was_made(self, tmp_path: Path) -> None:
        text = markdown(two_methods(tmp_path), "Slow and fast")
        table = [line for line in text.splitlines() if line.startswith("|")]
        assert {line.count("|") for line in table} == {4}
        assert "paired by seed with Slow" in text


class TestSpreadOverTime:
    def test_takes_the_updates_at_which_all_runs_were_evaluated(self, tmp_path: Path) -> None:
        one = open_run(write_run(tmp_path / "one", seed=1, seconds=200.0, curve=SLOW))
        two = open_run(write_run(tmp_path / "two", seed=2, seconds=80.0, curve=[FAST[0], FAST[2]]))
        assert spread_over_time([one, two]) == [(0.0, 10.0, 10.0, 10.0), (140.0, 65.0, 60.0, 70.0)]
