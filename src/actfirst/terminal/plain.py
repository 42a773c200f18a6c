"""A training run as plain lines, for logs and pipes: one line about every ten seconds, and every evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from actfirst.evaluate.results import Evaluation
from actfirst.records import Episode
from actfirst.rollout.collect import RolloutBatch
from actfirst.terminal.conclusion import conclude
from actfirst.terminal.progress import RunProgress
from actfirst.terminal.words import clock, figure, percent, rate
from actfirst.training.watch import EngineView

SECONDS_BETWEEN_LINES = 10.0


class PlainLines:
    """A `Watcher` that prints lines."""

    def __init__(
        self, console: Console, folder: Path | None = None, progress: RunProgress | None = None
    ) -> None:
        self._console = console
        self._folder = folder
        self._progress = progress or RunProgress()
        self._printed = float("-inf")

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None:
        self._progress.on_started(title, updates, done, engine)
        if done and self._folder is not None:
            self._progress.recall(self._folder)
        resumed = f", continued at {done}" if done else ""
        self._print(f"{title}: {updates} updates{resumed}")
        self._progress.measure_tokens()

    def stage(self, name: str) -> None:
        self._progress.stage = name
        self._print(f"{name} ...")

    def episode(self, episode: Episode) -> None:
        self._progress.on_episode(episode)

    def batch(self, batch: RolloutBatch, line: Mapping[str, object]) -> None:
        self._progress.on_batch(line)

    def update(self, line: Mapping[str, object]) -> None:
        progress = self._progress
        progress.on_update(line)
        now = progress.now()
        if progress.done < progress.updates and now - self._printed < SECONDS_BETWEEN_LINES:
            return
        self._printed = now
        self._print(progress_line(progress))

    def evaluating(self, who: str, done: int, of: int) -> None:
        """Too much for a log."""

    def evaluated(self, who: str, evaluation: Evaluation, seconds: float) -> None:
        self._progress.on_evaluated(who, evaluation)
        overall = evaluation.overall
        self._print(
            f"evaluated the {who} at update {self._progress.done}: success "
            f"{percent(overall.success_rate.mean)} on {overall.tasks} tasks after {clock(seconds)} of training "
            f"({clock(evaluation.seconds)} to evaluate)"
        )

    def finished(self, summary: Mapping[str, object]) -> None:
        conclude(self._console, summary, self._folder)

    def close(self) -> None:
        """Nothing is held."""

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
    parts += [f"reverse KL {figure(line.reverse_kl)}", f"loss {figure(line.loss)}"]
    if rates is not None:
        parts.append(f"tokens/s fast {rate(rates.fast)} full {rate(rates.full)} scored {rate(rates.scored)}")
    parts.append(f"{clock(line.training_seconds)} trained")
    if left is not None and progress.done < progress.updates:
        parts.append(f"{clock(left)} left")
    return "  ".join(parts)
