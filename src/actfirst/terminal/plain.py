"""A training run as plain lines, for logs and pipes: one line about every ten seconds, and every evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from actfirst.runs.lines import EvaluationLine, Summary, UpdateLine
from actfirst.terminal.conclusion import conclude
from actfirst.terminal.progress import RunProgress
from actfirst.terminal.words import MEANINGS, clock, figure, percent, rate
from actfirst.training.watch import EngineView

SECONDS_BETWEEN_LINES = 10.0


class PlainLines(RunProgress):
    """A `Watcher` that prints lines."""

    def __init__(
        self, console: Console, folder: Path | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(folder, now)
        self._console = console
        self._printed = float("-inf")

    def preparing(self, what: str) -> None:
        super().preparing(what)
        self._print(what)

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None:
        super().started(title, updates, done, engine)
        resumed = f", continued at {done}" if done else ""
        self._print(f"{title}: {updates} updates{resumed}")
        for name, meaning in MEANINGS.items():
            self._print(f"  {name:10s}  {meaning}")
        self.measure_tokens()

    def update(self, line: UpdateLine) -> None:
        super().update(line)
        if self.done < self.updates and self.now() - self._printed < SECONDS_BETWEEN_LINES:
            return
        self._printed = self.now()
        self._print(progress_line(self))

    def evaluated(self, line: EvaluationLine) -> None:
        super().evaluated(line)
        assert line.result is not None
        self._print(
            f"evaluated the {line.who} at update {line.update}: success {percent(line.success_rate)} on "
            f"{line.result.overall.tasks} tasks after {clock(line.training_seconds)} of training "
            f"({clock(line.result.seconds)} to evaluate)"
        )

    def finished(self, summary: Summary) -> None:
        conclude(self._console, summary, self.folder)

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def progress_line(progress: RunProgress) -> str:
    """How a run stands, on one line."""
    line = progress.latest[-1]
    width = len(str(progress.updates))
    left, rates, aligned = progress.seconds_left(), progress.measure_tokens(), progress.alignment()
    parts = [
        f"update {progress.done:{width}d}/{progress.updates}",
        f"rollout success {percent(progress.success_of_rollouts())}",
    ]
    if aligned:
        first, full, turns = (
            percent(aligned[key], 0) for key in ("first_action", "full_trajectory", "turn_coverage")
        )
        parts.append(f"aligned first {first} full {full} turns {turns}")
    if progress.covered is not None:
        parts.append(f"tasks with a reference {percent(progress.covered, 0)}")
    parts += [f"reverse KL {figure(line.reverse_kl)}", f"loss {figure(line.loss)}"]
    if rates is not None:
        parts.append(f"tokens/s fast {rate(rates.fast)} full {rate(rates.full)} scored {rate(rates.scored)}")
    parts.append(f"{clock(line.training_seconds)} trained")
    if left is not None and progress.done < progress.updates:
        parts.append(f"{clock(left)} left")
    return "  ".join(parts)
