"""What a watcher knows of a run, kept so that being told costs microseconds and drawing costs the run nothing.

The training thread calls the methods of `Watcher`; another thread may read at any time. Fields are replaced whole
or appended to, never edited in place, so a reader sees an old value or a new one, never half of one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from actfirst.records import Episode, Mode
from actfirst.runs.lines import AlignmentCounts, BatchLine, EvaluationLine, Line, UpdateLine, Who
from actfirst.runs.run import open_run
from actfirst.runs.utilisation import UtilisationLine
from actfirst.terminal.tokens import TokenCounts, TokenMeter
from actfirst.training.watch import EngineView, Watcher

WINDOW = 10
"""Batches over which success and alignment are taken, and updates over which the pace is."""


class RunProgress(Watcher):
    """The state of a run as its events tell it. With the folder of a resumed run it knows what came before. `now` is a
    clock that tests can set."""

    def __init__(self, folder: Path | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.now = now
        self.title = ""
        self.updates = self.done = 0
        self.stage = "starting"
        self.batches: deque[BatchLine] = deque(maxlen=WINDOW)
        self.latest: deque[UpdateLine] = deque(maxlen=WINDOW + 1)
        self.reverse_kl: list[float] = []
        self.rollout_success: list[float] = []
        self.before: float | None = None
        self.success: float | None = None
        self.teacher: float | None = None
        self.fast_tokens = 0
        self.engine: EngineView | None = None
        self.utilisation: UtilisationLine | None = None
        self.meter = TokenMeter()
        self.began = self.last_update = 0.0
        self.played = 0
        self.episode_seconds: float | None = None

    def preparing(self, what: str) -> None:
        self.stage = what

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None:
        self.title, self.updates, self.done, self.engine = title, updates, done, engine
        self.began = self.last_update = self.now()
        if done and self.folder is not None:
            for line in open_run(self.folder).lines:
                self._learn(line)
            self.latest.clear()  # the pace of the stopped run says nothing about this one

    def episode(self, episode: Episode) -> None:
        self.fast_tokens += sum(
            request.token_count
            for turn in episode.turns
            for request in turn.requests
            if request.mode is not Mode.FULL
        )

    def batch(self, line: BatchLine) -> None:
        self.stage = ""
        self._learn(line)

    def update(self, line: UpdateLine) -> None:
        self.stage = ""
        self.last_update = self.now()
        self._learn(line)

    def evaluating(self, who: Who, done: int, of: int) -> None:
        self.stage = f"evaluating the {who}: {done} of {of} episodes"
        self.played = done

    def evaluated(self, line: EvaluationLine) -> None:
        self.stage, self.played = "", 0
        self._learn(line)
        self.last_update = self.now()

    def utilised(self, line: UtilisationLine) -> None:
        self.utilisation = line

    @property
    def elapsed(self) -> float:
        return self.now() - self.began

    def seconds_left(self) -> float | None:
        """Remaining updates and evaluations at the pace of the latest ones; None before there is a pace."""
        lines = list(self.latest)
        if len(lines) < 2:
            return None
        steps = lines[-1].update - lines[0].update
        pace = (lines[-1].training_seconds - lines[0].training_seconds) / max(1, steps)
        since = 0.0 if self.stage else self.now() - self.last_update
        return max(0.0, pace * (self.updates - self.done) - since) + self._evaluating_left()

    def _evaluating_left(self) -> float:
        """By the latest evaluation; before there is one, by the rollouts, which play tasks of the same kind."""
        left = self.engine.episodes_left() - self.played if self.engine is not None else 0
        each = self.episode_seconds
        if each is None:
            batches = list(self.batches)
            played = sum(line.episodes for line in batches)
            each = sum(line.seconds for line in batches) / played if played else 0.0
        return max(0, left) * each

    def success_of_rollouts(self) -> float | None:
        """Percent of the episodes of the latest batches."""
        batches = list(self.batches)
        episodes = sum(line.episodes for line in batches)
        return 100.0 * sum(line.succeeded for line in batches) / episodes if episodes else None

    def alignment(self) -> dict[str, float]:
        """Rates in percent over the latest batches; empty for a method without references."""
        return AlignmentCounts.sum(line.alignment for line in list(self.batches)).rates()

    @property
    def covered(self) -> float | None:
        """Percent of the training tasks that have a reference, where rollouts are the references."""
        return self.batches[-1].covered if self.batches else None

    def measure_tokens(self) -> TokenCounts | None:
        """Read the engines' counters and return tokens per second by kind over the latest seconds."""
        if self.engine is None:
            return None
        counts = TokenCounts.of(self.engine.student(), self.engine.teacher(), self.fast_tokens)
        self.meter.observe(self.now(), counts)
        return self.meter.per_second()

    def _learn(self, line: Line) -> None:
        if isinstance(line, EvaluationLine) and line.result is not None:
            everything = line.result.overall
            episodes = everything.tasks * len(everything.success_rate.per_seed)
            self.episode_seconds = line.result.seconds / max(1, episodes)
        match line:
            case BatchLine():
                self.batches.append(line)
                if line.episodes:
                    self.rollout_success.append(100.0 * line.succeeded / line.episodes)
            case UpdateLine():
                self.done = line.update
                self.latest.append(line)
                if line.reverse_kl is not None:
                    self.reverse_kl.append(line.reverse_kl)
            case EvaluationLine(who="teacher"):
                self.teacher = line.success_rate
            case EvaluationLine():
                if line.update == 0:
                    self.before = line.success_rate
                self.success = line.success_rate
