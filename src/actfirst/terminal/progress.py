"""What a watcher knows of a run, kept so that being told costs microseconds and drawing costs the run nothing.

The training thread calls the `on_...` methods; another thread may read at any time. Fields are replaced whole
or appended to, never edited in place, so a reader sees an old value or a new one, never half of one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actfirst.evaluate.results import Evaluation
from actfirst.records import Episode, Mode
from actfirst.rollout.alignment_counts import AlignmentCounts
from actfirst.runs.lines import BatchLine, EvaluationLine, UpdateLine, parse_line, read_lines
from actfirst.terminal.tokens import TokenCounts, TokenMeter
from actfirst.training.watch import EngineView

WINDOW = 10
"""Batches over which success and alignment are taken, and updates over which the pace is."""


@dataclass
class RunProgress:
    """The state of a run as its events tell it. `now` is a clock that tests can set."""

    now: Callable[[], float] = time.monotonic
    title: str = ""
    updates: int = 0
    done: int = 0
    stage: str = "starting"
    batches: deque[BatchLine] = field(default_factory=lambda: deque(maxlen=WINDOW))
    latest: deque[UpdateLine] = field(default_factory=lambda: deque(maxlen=WINDOW + 1))
    reverse_kl: list[float] = field(default_factory=list)
    rollout_success: list[float] = field(default_factory=list)
    before: float | None = None
    evaluated: float | None = None
    teacher: float | None = None
    fast_tokens: int = 0
    engine: EngineView | None = None
    meter: TokenMeter = field(default_factory=TokenMeter)
    began: float = 0.0
    last_update: float = 0.0

    def on_started(self, title: str, updates: int, done: int, engine: EngineView) -> None:
        self.title, self.updates, self.done, self.engine = title, updates, done, engine
        self.began = self.last_update = self.now()

    def recall(self, folder: Path) -> None:
        """Learn what a resumed run did before it was stopped."""
        for line in read_lines(folder):
            if isinstance(line, EvaluationLine):
                self._evaluation(line.who, line.success_rate, line.update)
            elif isinstance(line, BatchLine):
                self._batch(line)
            else:
                self._update(line)
        self.latest.clear()  # the pace of the stopped run says nothing about this one

    def on_episode(self, episode: Episode) -> None:
        self.fast_tokens += sum(
            request.token_count
            for turn in episode.turns
            for request in turn.requests
            if request.mode is not Mode.FULL
        )

    def on_batch(self, line: Mapping[str, object]) -> None:
        parsed = parse_line(line, "a batch line")
        assert isinstance(parsed, BatchLine)
        self.stage = ""
        self._batch(parsed)

    def on_update(self, line: Mapping[str, object]) -> None:
        parsed = parse_line(line, "an update line")
        assert isinstance(parsed, UpdateLine)
        self.stage = ""
        self.last_update = self.now()
        self._update(parsed)

    def on_evaluated(self, who: str, evaluation: Evaluation) -> None:
        self.stage = ""
        self._evaluation(who, evaluation.overall.success_rate.mean, self.done)
        self.last_update = self.now()

    @property
    def elapsed(self) -> float:
        return self.now() - self.began

    def seconds_left(self) -> float | None:
        """Remaining updates at the pace of the latest ones; None before there is a pace."""
        lines = list(self.latest)
        if len(lines) < 2:
            return None
        steps = lines[-1].update - lines[0].update
        pace = (lines[-1].training_seconds - lines[0].training_seconds) / max(1, steps)
        since = 0.0 if self.stage else self.now() - self.last_update
        return max(0.0, pace * (self.updates - self.done) - since)

    def success_of_rollouts(self) -> float | None:
        """Percent of the episodes of the latest batches."""
        batches = list(self.batches)
        episodes = sum(line.episodes for line in batches)
        return 100.0 * sum(line.succeeded for line in batches) / episodes if episodes else None

    def alignment(self) -> dict[str, float]:
        """Rates in percent over the latest batches; empty for a method without references."""
        return sum((line.alignment for line in list(self.batches)), AlignmentCounts()).rates()

    def measure_tokens(self) -> TokenCounts | None:
        """Read the engines' counters and return tokens per second by kind over the latest seconds."""
        if self.engine is None:
            return None
        self.meter.observe(
            self.now(), TokenCounts.of(self.engine.student(), self.engine.teacher(), self.fast_tokens)
        )
        return self.meter.per_second()

    def _batch(self, line: BatchLine) -> None:
        self.batches.append(line)
        if line.episodes:
            self.rollout_success.append(100.0 * line.succeeded / line.episodes)

    def _update(self, line: UpdateLine) -> None:
        self.done = line.update
        self.latest.append(line)
        if line.reverse_kl is not None:
            self.reverse_kl.append(line.reverse_kl)

    def _evaluation(self, who: str, success: float, update: int) -> None:
        if who == "teacher":
            self.teacher = success
            return
        if update == 0:
            self.before = success
        self.evaluated = success
