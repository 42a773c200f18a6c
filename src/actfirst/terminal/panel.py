"""The live panel of a training run, redrawn a few times a second by a thread of its own.

Training calls only store what they are told (`progress.py`); everything that costs time happens in `render`,
which the drawing thread calls. Not on a terminal, `plain.py` serves instead.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from actfirst.runs.lines import Summary
from actfirst.terminal.conclusion import conclude
from actfirst.terminal.plain import PlainLines
from actfirst.terminal.progress import WINDOW, RunProgress
from actfirst.terminal.words import MEANINGS, UNKNOWN, clock, figure, percent, rate, sparkline
from actfirst.training.watch import EngineView, Watcher

REFRESHES_PER_SECOND = 4
_WIDTH = 80


class LivePanel(RunProgress):
    """A `Watcher` for a terminal."""

    def __init__(self, console: Console, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._console = console
        self._live: Live | None = None

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None:
        super().started(title, updates, done, engine)
        for name, meaning in MEANINGS.items():
            self._console.print(Text.assemble((f"{name:10s}  ", "bold"), (meaning, "dim")))
        self._live = Live(
            console=self._console,
            get_renderable=lambda: render(self, self._console.width),
            refresh_per_second=REFRESHES_PER_SECOND,
        )
        self._live.start()

    def preparing(self, what: str) -> None:
        super().preparing(what)
        if self._live is None:
            self._console.print(Text(what, "dim"))

    def finished(self, summary: Summary) -> None:
        self.close()
        conclude(self._console, summary, self.folder)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def choose_watcher(console: Console, folder: Path | None = None) -> Watcher:
    """The watcher that fits the console. With the run's folder, it also draws the picture at the end."""
    # A pipe, a dumb terminal and an old encoding cannot show a panel that is redrawn in place.
    live = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    return LivePanel(console, folder) if live else PlainLines(console, folder)


def render(progress: RunProgress, width: int = _WIDTH) -> Panel:
    """The whole panel. One text of plain rows: tables would cost the run four times as much to draw."""
    more = max(0, width - _WIDTH)  # for what can be drawn longer than on 80 columns
    body = Text(no_wrap=True, overflow="ellipsis")
    body.append_text(_bar(progress, 34 + more))
    rows: tuple[tuple[str, Text], ...] = (
        ("now", Text(progress.stage or "training", "yellow" if progress.stage else "green")),
        ("success", _success(progress)),
        ("rollouts", _rollouts(progress, 24 + more)),
        ("alignment", _alignment(progress)),
        ("learning", _learning(progress, 14 + more)),
        ("tokens/s", _tokens(progress)),
        ("queues", _queues(progress)),
        ("busy", _busy(progress)),
        ("time", _time(progress)),
        ("responses", _responses(progress)),
    )
    for name, content in rows:
        body.append(f"\n{name:10s}", "dim").append_text(content)
    return Panel(
        body,
        title=Text(progress.title, "bold"),
        title_align="left",
        border_style="cyan",
        padding=(0, 1),
        width=width,
        subtitle=Text(f"rates over the latest {WINDOW} batches", "dim"),
        subtitle_align="right",
    )


def _bar(progress: RunProgress, length: int) -> Text:
    left = progress.seconds_left()
    filled = length * progress.done // max(1, progress.updates)
    return Text.assemble(
        (f"update {progress.done}/{progress.updates}  ", "bold"),
        ("━" * filled, "cyan"),
        ("━" * (length - filled), "bright_black"),
        f"  {clock(progress.elapsed)} gone",
        (f"  {clock(left)} left" if left is not None else "", "bold"),
    )


def _success(progress: RunProgress) -> Text:
    now = progress.success if progress.done else None
    rates = (("before", progress.before), ("now", now), ("teacher", progress.teacher))
    return _named(*((name, percent(value)) for name, value in rates))


def _rollouts(progress: RunProgress, length: int) -> Text:
    bars = sparkline(progress.rollout_success, length)
    return _named(("success", percent(progress.success_of_rollouts()))).append(bars, "green")


def _alignment(progress: RunProgress) -> Text:
    rates, covered = progress.alignment(), progress.covered
    if not rates and covered is None:
        return Text("no reference guidance" if progress.batches else UNKNOWN, "dim")
    names = (
        ("first action", "first_action"),
        ("full trajectory", "full_trajectory"),
        ("turns", "turn_coverage"),
    )
    parts = [(name, percent(rates[key])) for name, key in names if rates]
    if covered is not None:
        parts.append(("of tasks", percent(covered)))
    return _named(*parts)


def _learning(progress: RunProgress, length: int) -> Text:
    if not progress.latest:
        return Text(UNKNOWN, "dim")
    line = progress.latest[-1]
    return _named(
        ("loss", figure(line.loss)),
        ("grad norm", figure(line.grad_norm)),
        ("reverse KL", figure(line.reverse_kl)),
    ).append(sparkline(progress.reverse_kl, length), "magenta")


def _tokens(progress: RunProgress) -> Text:
    rates = progress.measure_tokens()
    if rates is None:
        return Text(UNKNOWN, "dim")
    return _named(*((name, rate(value)) for name, value in asdict(rates).items()))


def _queues(progress: RunProgress) -> Text:
    if progress.engine is None:
        return Text(UNKNOWN, "dim")
    student, teacher = progress.engine.student(), progress.engine.teacher()
    return _named(
        ("running", str(student.running)),
        ("waiting", str(student.waiting)),
        ("at the teacher", str(teacher.running + teacher.waiting)),
        ("buffered", str(progress.engine.buffered())),
    )


def _busy(progress: RunProgress) -> Text:
    line = progress.utilisation
    if line is None:
        return Text(UNKNOWN, "dim")
    if line.gpus:
        return _named(("GPUs", " ".join(percent(value, 0) for value in line.gpus)))
    return _named(*((name, percent(value, 0)) for name, value in line.parts.items() if value >= 0.5))


def _time(progress: RunProgress) -> Text:
    if not progress.latest:
        return Text(UNKNOWN, "dim")
    stages = sorted(progress.latest[-1].stages.items(), key=lambda stage: -stage[1])
    return _named(*((name, clock(seconds)) for name, seconds in stages if seconds >= 0.5))


def _responses(progress: RunProgress) -> Text:
    if not progress.latest:
        return Text(UNKNOWN, "dim")
    ledger = progress.latest[-1].ledger
    return _named(
        ("generated", f"{ledger.generated:,} ="),
        ("trained", f"{ledger.trained:,} +"),
        ("discarded", f"{sum(ledger.discarded.values()):,} +"),
        ("buffered", f"{ledger.buffered:,}"),
    )


def _named(*parts: tuple[str, str]) -> Text:
    text = Text()
    for name, value in parts:
        text.append(f"{name} ", "dim").append(f"{value}  ")
    return text
