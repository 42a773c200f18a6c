"""The live panel of a training run, redrawn a few times a second by a thread of its own.

Training calls only store what they are told (`progress.py`); everything that costs time happens in `render`, which
the drawing thread calls. Not on a terminal, `plain.py` serves instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actfirst.evaluate.results import Evaluation
from actfirst.records import Episode
from actfirst.rollout.collect import RolloutBatch
from actfirst.runtime.watch import EngineView
from actfirst.view.conclusion import conclude
from actfirst.view.progress import WINDOW, RunProgress
from actfirst.view.words import UNKNOWN, clock, figure, ledger_in_words, percent, rate, sparkline

REFRESHES_PER_SECOND = 4
_WIDEST = 110


class LivePanel:
    """A `Watcher` for a terminal."""

    def __init__(self, console: Console, folder: Path | None = None) -> None:
        self._console = console
        self._folder = folder
        self._progress = RunProgress()
        self._live: Live | None = None

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None:
        self._progress.on_started(title, updates, done, engine)
        if done and self._folder is not None:
            self._progress.recall(self._folder)
        self._live = Live(
            console=self._console,
            get_renderable=lambda: render(self._progress),
            refresh_per_second=REFRESHES_PER_SECOND,
        )
        self._live.start()

    def stage(self, name: str) -> None:
        self._progress.stage = name

    def episode(self, episode: Episode) -> None:
        self._progress.on_episode(episode)

    def batch(self, batch: RolloutBatch, line: Mapping[str, object]) -> None:
        self._progress.on_batch(line)

    def update(self, line: Mapping[str, object]) -> None:
        self._progress.on_update(line)

    def evaluating(self, who: str, done: int, of: int) -> None:
        self._progress.stage = f"evaluating the {who}: {done} of {of} episodes"

    def evaluated(self, who: str, evaluation: Evaluation, seconds: float) -> None:
        self._progress.on_evaluated(who, evaluation)

    def finished(self, summary: Mapping[str, object]) -> None:
        self.close()
        conclude(self._console, summary, self._folder)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def render(progress: RunProgress) -> RenderableType:
    """The whole panel."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(ratio=1)
    for name, content in (
        ("success", _success(progress)),
        ("alignment", _alignment(progress)),
        ("learning", _learning(progress)),
        ("tokens/s", _tokens(progress)),
        ("queues", _queues(progress)),
        ("time", _time(progress)),
        ("responses", _responses(progress)),
    ):
        rows.add_row(name, content)
    title = Text(f" {progress.title} ", style="bold")
    body = Group(_bar(progress), Text(), rows)
    return Panel(body, title=title, title_align="left", border_style="cyan", padding=(1, 2), width=_WIDEST)


def _bar(progress: RunProgress) -> RenderableType:
    left = progress.seconds_left()
    row = Table.grid(padding=(0, 2), expand=True)
    for ratio in (None, 1, None, None):
        row.add_column(ratio=ratio, no_wrap=True)
    row.add_row(
        Text(f"update {progress.done}/{progress.updates}", style="bold"),
        ProgressBar(total=max(1, progress.updates), completed=progress.done, complete_style="cyan"),
        f"{clock(progress.elapsed)} gone",
        Text(f"{clock(left)} left" if left is not None else "", style="bold"),
    )
    return Group(row, Text(progress.stage or "training", style="yellow" if progress.stage else "green"))


def _success(progress: RunProgress) -> Text:
    now = progress.evaluated if progress.evaluated != progress.before or progress.done else None
    return _named(
        ("evaluated", percent(now), "bold green"),
        ("before", percent(progress.before), ""),
        ("teacher", percent(progress.teacher), ""),
        ("rollouts", percent(progress.success_of_rollouts()), ""),
    ).append(sparkline(progress.rollout_success), "green")


def _alignment(progress: RunProgress) -> Text:
    rates = progress.alignment()
    if not rates:
        return Text("no reference guidance" if progress.batches else UNKNOWN, "dim")
    return _named(
        ("first action", percent(rates["first_action"]), ""),
        ("full trajectory", percent(rates["full_trajectory"]), ""),
        ("turns", percent(rates["turn_coverage"]), ""),
    ).append(f"latest {WINDOW} batches", "dim")


def _learning(progress: RunProgress) -> Text:
    if not progress.latest:
        return Text(UNKNOWN, "dim")
    line = progress.latest[-1]
    return _named(
        ("loss", figure(line.loss), ""),
        ("grad norm", figure(line.grad_norm), ""),
        ("reverse KL", figure(line.reverse_kl), ""),
    ).append(sparkline(progress.reverse_kl), "magenta")


def _tokens(progress: RunProgress) -> Text:
    rates = progress.measure_tokens()
    if rates is None:
        return Text(UNKNOWN, "dim")
    return _named(
        ("fast", rate(rates.fast), ""),
        ("full", rate(rates.full), ""),
        ("prefill", rate(rates.prefill), ""),
        ("cached", rate(rates.cached), ""),
        ("scored", rate(rates.scored), ""),
    )


def _queues(progress: RunProgress) -> Text:
    if progress.engine is None:
        return Text(UNKNOWN, "dim")
    student, teacher = progress.engine.student(), progress.engine.teacher()
    return _named(
        ("running", str(student.running), ""),
        ("waiting", str(student.waiting), ""),
        ("at the teacher", str(teacher.running + teacher.waiting), ""),
        ("buffered", str(progress.engine.buffered()), ""),
    )


def _time(progress: RunProgress) -> Text:
    if not progress.latest:
        return Text(UNKNOWN, "dim")
    stages = sorted(progress.latest[-1].stages.items(), key=lambda stage: -stage[1])
    return _named(*((name, clock(seconds), "") for name, seconds in stages if seconds >= 0.5))


def _responses(progress: RunProgress) -> Text:
    return Text(ledger_in_words(progress.latest[-1].ledger)) if progress.latest else Text(UNKNOWN, "dim")


def _named(*parts: tuple[str, str, str]) -> Text:
    text = Text()
    for name, value, style in parts:
        text.append(f"{name} ", "dim").append(value, style).append("   ")
    return text
