"""Supervised fine-tuning as a person sees it: a bar on a terminal, elsewhere a line about every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from actfirst.runs.lines import SftLine, SftSummary
from actfirst.terminal.plain import SECONDS_BETWEEN_LINES
from actfirst.terminal.words import clock, figure, percent, rate
from actfirst.training.sft import SftWatcher
from actfirst.training.sft_examples import Examples


class SftProgress(SftWatcher):
    """A watcher for any console; a context manager, because a bar has to be taken away again."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._now = now
        self._printed = float("-inf")
        self._steps = 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._task = self._bar.add_task("starting", total=None) if self._bar else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def reading(self, done: int, of: int, source: str) -> None:
        self._show(done, of, f"replaying {source}", done == of)

    def started(self, steps: int, done: int, examples: Examples) -> None:
        self._steps = steps
        for one in examples.data:
            shown = ", ".join(f"{count:,} {mode}" for mode, count in one.examples.items()) or "none"
            left_out = "; ".join(f"{count:,} {reason}" for reason, count in one.dropped.items())
            self._print(
                f"{one.source}: {one.kept:,} of {one.trajectories:,} used; examples: {shown}"
                + (f"; left out: {left_out}" if left_out else "")
            )
        resumed = f", continued at {done}" if done else ""
        counts = f"{len(examples.train):,} examples, {len(examples.held_out):,} held out"
        self._print(f"{steps} steps{resumed}; {counts}")

    def step(self, line: SftLine) -> None:
        held = "" if line.held_out is None else f"  held out {figure(line.held_out)}"
        words = f"loss {figure(line.loss)}{held}  {rate(line.tokens / max(line.seconds, 1e-9))} tokens/s"
        due = line.held_out is not None or line.step == self._steps
        self._show(line.step, self._steps, words, due)

    def evaluating(self, done: int, of: int) -> None:
        self._show(done, of, "evaluating, episodes", done == of)

    def finished(self, summary: SftSummary) -> None:
        before, after = summary.held_out
        self._print(
            f"{summary.title}: loss {figure(summary.first_loss)} -> {figure(summary.last_loss)}, held out "
            f"{figure(before)} -> {figure(after)}, success {percent(summary.success_rate.after)}, "
            f"{summary.tokens:,} tokens in {clock(summary.training_seconds)}"
        )

    def _show(self, done: int, of: int, words: str, always: bool) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=done, total=of, description=words)
        elif always or self._now() - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = self._now()
            self._print(f"{done}/{of}  {words}")

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
