"""The live panel and the plain lines, fed with the events of a run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from actfirst.runs.utilisation import UtilisationLine
from actfirst.terminal.panel import LivePanel, choose_watcher, render
from actfirst.terminal.plain import PlainLines
from actfirst.terminal.progress import RunProgress
from tests.support.run_folders import NO_ALIGNMENT, write_run
from tests.terminal.watching import Clock, Engines, batch_line, evaluated, summary_of, update_line


def text_console(width: int = 200) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None)


def printed(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


class TestChoice:
    def test_a_pipe_gets_lines_and_a_terminal_a_panel(self) -> None:
        assert isinstance(choose_watcher(text_console()), PlainLines)
        terminal = Console(file=io.TextIOWrapper(io.BytesIO(), "utf-8"), force_terminal=True, _environ={})
        assert isinstance(choose_watcher(terminal), LivePanel)

    def test_a_dumb_terminal_and_an_old_encoding_get_lines(self) -> None:
        dumb = Console(
            file=io.TextIOWrapper(io.BytesIO(), "utf-8"), force_terminal=True, _environ={"TERM": "dumb"}
        )
        assert isinstance(choose_watcher(dumb), PlainLines)
        latin = Console(file=io.TextIOWrapper(io.BytesIO(), "latin-1"), force_terminal=True, _environ={})
        assert isinstance(choose_watcher(latin), PlainLines)


class TestPanel:
    def test_shows_everything_that_is_known(self) -> None:
        clock = Clock()
        progress = RunProgress(now=clock)
        progress.started("Method on toy", 20, 0, Engines(held=3))
        progress.evaluated(evaluated(90, "teacher"))
        progress.evaluated(evaluated(20))
        for number in range(1, 5):
            progress.batch(batch_line(number, succeeded=number))
            progress.update(update_line(number, 3.0 * number, reverse_kl=1.0 / number))
        progress.utilised(UtilisationLine(seconds=3.0, parts={"engine": 92.4, "learner": 0.0, "other": 51.0}))
        progress.measure_tokens()
        clock.seconds = 2.0
        console = text_console(80)
        console.print(render(progress))
        shown = printed(console)
        for part in (
            "Method on toy",
            "update 4/20",
            "0:46 left",
            "before 20.0 %",
            "teacher 90.0 %",
            "success 62.5 %  ▁▃▆█",
            "first action 75.0 %  full trajectory 50.0 %  turns 50.0 %",
            "loss 0.25  grad norm 1.5  reverse KL 0.25  █▃▂▁",
            "fast 0  full 0  prefill 0  cached 0  scored 0",
            "running 0  waiting 0  at the teacher 0  buffered 3",
            "engine 92 %  other 51 %",
            "rollout 0:08  update 0:04",
            "generated 40 =  trained 37 +  discarded 2 +  buffered 1",
        ):
            assert part in shown, part

    def test_shows_gpus_where_there_are_some(self) -> None:
        progress = RunProgress()
        progress.utilised(UtilisationLine(seconds=3.0, gpus=(97.0, 3.0), parts={"engine": 92.4}))
        console = text_console(80)
        console.print(render(progress))
        assert "GPUs 97 % 3 %" in printed(console)

    def test_can_be_drawn_before_anything_is_known(self) -> None:
        console = text_console()
        console.print(render(RunProgress()))
        assert "update 0/0" in printed(console)

    def test_says_that_a_method_has_no_guidance(self) -> None:
        progress = RunProgress()
        progress.batch(batch_line(0, alignment=NO_ALIGNMENT))
        console = text_console()
        console.print(render(progress))
        assert "no reference guidance" in printed(console)

    def test_fits_a_terminal_of_eighty_columns(self) -> None:
        progress = RunProgress()
        progress.started("Method on toy", 2000, 0, Engines())
        progress.update(update_line(1999, 99999.0))
        console = text_console(80)
        console.print(render(progress))
        assert max(map(len, printed(console).splitlines())) == 80

    def test_uses_the_width_of_a_wider_terminal(self) -> None:
        progress = RunProgress()
        progress.started("Method on toy", 10, 0, Engines())
        progress.update(update_line(5, 10.0))
        console = text_console(140)
        console.print(render(progress, 140))
        shown = printed(console)
        assert {len(line) for line in shown.splitlines()} == {140}
        assert shown.count("━") == 94, "the bar is longer, too"

    def test_leaves_the_terminal_alone_when_the_run_ends(self) -> None:
        console = Console(file=io.StringIO(), force_terminal=True, width=100, _environ={})
        panel = LivePanel(console)
        panel.started("Method on toy", 2, 0, Engines())
        panel.update(update_line(1, 1.0))
        panel.close()
        before = printed(console)
        panel.update(update_line(2, 2.0))
        assert before.endswith("\x1b[?25h")  # the cursor is shown again
        assert printed(console) == before


class TestPlainLines:
    def run(self, seconds_per_update: float, updates: int = 6) -> list[str]:
        clock, console = Clock(), text_console()
        lines = PlainLines(console, now=clock)
        lines.started("Method on toy", updates, 0, Engines())
        lines.evaluated(evaluated(20))
        for number in range(1, updates + 1):
            clock.seconds += seconds_per_update
            lines.batch(batch_line(number))
            lines.update(update_line(number, seconds_per_update * number))
        return printed(console).splitlines()

    def test_one_line_about_every_ten_seconds_and_one_for_the_last_update(self) -> None:
        lines = [line for line in self.run(4.0) if line.startswith("update")]
        assert [line.split()[1] for line in lines] == ["1/6", "4/6", "6/6"]

    def test_slow_updates_get_a_line_each(self) -> None:
        assert sum(line.startswith("update") for line in self.run(30.0)) == 6

    def test_a_line_says_how_the_run_stands(self) -> None:
        line = next(line for line in self.run(30.0) if line.startswith("update 2/6"))
        for part in ("rollout success 25.0 %", "aligned first 75 % full 50 %", "reverse KL 0.5", "2:00 left"):
            assert part in line, part

    def test_it_says_what_it_does_before_the_first_update_and_what_the_figures_mean(self) -> None:
        console = text_console()
        lines = PlainLines(console)
        lines.preparing("opening engines and environments")
        lines.started("Method on toy", 3, 0, Engines())
        first, title, *meanings = printed(console).splitlines()
        assert first == "opening engines and environments"
        assert title == "Method on toy: 3 updates"
        assert any("reverse KL" in line and "learning makes it fall" in line for line in meanings)

    def test_evaluations_are_always_told(self) -> None:
        assert any("evaluated the student at update 0: success 20.0 %" in line for line in self.run(1.0))

    def test_lines_are_plain_ascii(self) -> None:
        assert "".join(self.run(30.0)).isascii()


class TestConclusion:
    def test_result_time_balance_picture_and_next_steps(self, tmp_path: Path) -> None:
        folder = write_run(tmp_path / "run", seed=1, seconds=125.0, curve=[(0, 0.0, 10.0), (8, 125.0, 60.0)])
        console = text_console()
        PlainLines(console, folder).finished(summary_of(125.0))
        shown = printed(console)
        for part in (
            "10.0 % before -> 60.0 % after, 75 % of the teacher's 80.0 %",
            "2:05 for 8 updates (15.62 s each)",
            "rollout 1:15 (60 %), update 0:50 (40 %)",
            "0:07 beside that",
            "from launch to here, evaluation included",
            "20 generated = 17 trained + 2 discarded (stale 2) + 1 buffered",
            str(folder / "success.png"),
            f"actfirst view {folder}",
            f"actfirst compare vanilla actfirst --recipe {folder}/config.toml",
            f"actfirst play {folder}/config.toml --model {folder}",
            f"actfirst eval {folder}",
        ):
            assert part in shown, part
        assert (folder / "success.png").stat().st_size > 5000

    def test_a_run_without_evaluations_has_no_picture_and_says_why(self, tmp_path: Path) -> None:
        folder = write_run(tmp_path / "run", seed=1, seconds=5.0, curve=[])
        console = text_console()
        PlainLines(console, folder).finished(summary_of(5.0, before=None, after=None))
        assert "needs two evaluations" in printed(console)
        assert not (folder / "success.png").exists()

    def test_a_picture_that_cannot_be_written_does_not_spoil_the_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = write_run(tmp_path / "run", seed=1, seconds=5.0, curve=[])

        def full(folder: Path) -> Path:
            raise OSError("No space left on device")

        monkeypatch.setattr("actfirst.terminal.pictures.draw_run", full)
        console = text_console()
        PlainLines(console, folder).finished(summary_of(5.0))
        assert "could not be written: No space left" in printed(console)
