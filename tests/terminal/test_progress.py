"""What a watcher knows of a run: windows, pace and token rates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from actfirst.terminal.panel import render
from actfirst.terminal.progress import RunProgress
from actfirst.terminal.tokens import TokenCounts, TokenMeter
from tests.support.run_folders import NO_ALIGNMENT, write_run
from tests.terminal.watching import IDLE, Clock, Engines, batch_line, episode, evaluated, update_line


def started(clock: Clock, engines: Engines | None = None, updates: int = 20) -> RunProgress:
    progress = RunProgress(now=clock)
    progress.started("Method on toy", updates, 0, engines or Engines())
    return progress


class TestWindows:
    def test_success_and_alignment_are_of_the_latest_ten_batches(self) -> None:
        """Paper, "Reference Alignment During Training": counts over the latest 10 completed rollout batches."""
        progress = started(Clock())
        progress.batch(batch_line(0, succeeded=4, alignment=NO_ALIGNMENT | {"guided": 4, "turns": 4}))
        for index in range(1, 11):
            progress.batch(batch_line(index, succeeded=2))
        assert progress.success_of_rollouts() == 50.0
        assert progress.alignment() == {"first_action": 75.0, "full_trajectory": 50.0, "turn_coverage": 50.0}
        assert progress.rollout_success == [100.0] + [50.0] * 10

    def test_all_batches_count_while_there_are_fewer(self) -> None:
        progress = started(Clock())
        progress.batch(batch_line(0, succeeded=4))
        progress.batch(batch_line(1, succeeded=1))
        assert progress.success_of_rollouts() == pytest.approx(62.5)

    def test_nothing_is_known_before_the_first_batch_or_without_guidance(self) -> None:
        progress = started(Clock())
        assert progress.success_of_rollouts() is None
        progress.batch(batch_line(0, alignment=NO_ALIGNMENT))
        assert progress.alignment() == {}


class TestPace:
    def test_time_left_follows_the_latest_updates_and_runs_down(self) -> None:
        clock = Clock()
        progress = started(clock)
        assert progress.seconds_left() is None
        for number in range(1, 5):
            progress.update(update_line(number, 3.0 * number))
        assert progress.seconds_left() == pytest.approx(16 * 3.0)
        clock.seconds += 2.0
        assert progress.seconds_left() == pytest.approx(46.0)

    def test_time_left_counts_evaluations_by_the_latest_of_them(self) -> None:
        engines = Engines(to_evaluate=200)
        progress = started(Clock(), engines, updates=10)
        for number in (1, 2):
            progress.update(update_line(number, 3.0 * number))
        assert progress.seconds_left() == pytest.approx(8 * 3.0), "nothing is known of evaluations yet"
        progress.evaluated(evaluated(40))  # 100 episodes in 3 seconds
        assert progress.seconds_left() == pytest.approx(8 * 3.0 + 200 * 0.03)
        progress.evaluating("student", 50, 100)
        assert progress.seconds_left() == pytest.approx(8 * 3.0 + 150 * 0.03)

    def test_before_the_first_evaluation_rollouts_say_how_long_an_episode_takes(self) -> None:
        progress = started(Clock(), Engines(to_evaluate=10), updates=2)
        progress.batch(batch_line(0).model_copy(update={"seconds": 8.0}))  # of 4 episodes
        for number in (1, 2):
            progress.update(update_line(number, 3.0 * number))
        assert progress.seconds_left() == pytest.approx(10 * 2.0)

    def test_the_countdown_waits_during_an_evaluation(self) -> None:
        clock = Clock()
        progress = started(clock)
        progress.update(update_line(1, 3.0))
        progress.update(update_line(2, 6.0))
        progress.stage = "evaluating the student"
        clock.seconds += 100.0
        assert progress.seconds_left() == pytest.approx(54.0)
        progress.evaluated(evaluated(40))
        assert progress.seconds_left() == pytest.approx(54.0)

    def test_a_number_that_was_not_finite_leaves_no_trace_in_the_curve(self) -> None:
        progress = started(Clock())
        progress.update(update_line(1, 1.0, reverse_kl=0.5))
        progress.update(update_line(2, 2.0, reverse_kl=None))
        assert progress.reverse_kl == [0.5]
        assert progress.done == 2


class TestEvaluations:
    def test_before_now_and_teacher_are_kept_apart(self) -> None:
        progress = started(Clock())
        progress.evaluated(evaluated(90, "teacher"))
        progress.evaluated(evaluated(20))
        progress.update(update_line(1, 1.0))
        progress.evaluated(evaluated(35, update=1))
        assert (progress.teacher, progress.before, progress.success) == (90.0, 20.0, 35.0)

    def test_a_resumed_run_remembers_what_it_measured(self, tmp_path: Path) -> None:
        folder = write_run(tmp_path / "run", seed=1, seconds=9.0, curve=[(0, 0.0, 10.0), (4, 5.0, 30.0)])
        progress = RunProgress(folder)
        progress.started("Method on toy", 20, 4, Engines())
        assert (progress.teacher, progress.before, progress.success) == (80.0, 10.0, 30.0)
        assert len(progress.batches) == 2


class TestTokens:
    def test_kinds_are_told_apart_by_what_episodes_used(self) -> None:
        clock, engines = Clock(), Engines()
        progress = started(clock, engines)
        assert progress.measure_tokens() is None
        engines.generate(1000)
        engines.of_teacher = replace(IDLE, scored_tokens=400)
        progress.episode(episode((30, 70)))
        clock.seconds = 10.0
        rates = progress.measure_tokens()
        assert rates is not None
        assert (rates.fast, rates.full, rates.scored) == (10.0, 90.0, 40.0)

    def test_rates_forget_what_is_older_than_the_window(self) -> None:
        meter = TokenMeter(window=10.0)
        for second in range(31):
            tokens = 100.0 * min(second, 15)
            meter.observe(second, TokenCounts(0, tokens, 0, 0, 0))
        rates = meter.per_second()
        assert rates is not None
        assert rates.full == 0.0

    def test_a_late_count_of_fast_tokens_never_shows_as_a_negative_rate(self) -> None:
        before, after = TokenCounts(0, 100, 0, 0, 0), TokenCounts(150, 50, 0, 0, 0)
        assert after.per_second(before, 1.0).full == 0.0


def test_the_panel_shows_which_share_of_the_tasks_has_a_reference() -> None:
    """With `references.source = "rollouts"`, also before any rollout is guided."""
    progress = RunProgress()
    progress.batch(batch_line(0, alignment=NO_ALIGNMENT).model_copy(update={"covered": 12.5}))
    assert progress.covered == 12.5
    console = Console(width=100)
    with console.capture() as shown:
        console.print(render(progress, 100))
    assert "of tasks 12.5 %" in shown.get()
    assert "no reference guidance" not in shown.get()
