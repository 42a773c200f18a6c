"""Environment transitions per second, and what a speedup consists of (paper, "Environment-Transition Throughput").

The full window begins when rollouts are first asked for and ends with the last update; the early window covers its
first seconds. Both hold rollout, scoring, updates and waiting, not start-up, evaluation or shutdown: time is the run's
training clock. Transitions of a batch that was never delivered are not in a run folder and are not counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.errors import RunFolderError
from actfirst.runs.episodes import EpisodeLine
from actfirst.runs.run import Run

EARLY_SECONDS = 600.0
"""The paper's early window."""


@dataclass(frozen=True, slots=True)
class Window:
    """Transitions completed in a stretch of training time."""

    transitions: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.transitions / self.seconds


@dataclass(frozen=True)
class RunTimes:
    """When the transitions of a run were over, on its training clock, and between which moments it is looked at."""

    origin: float
    end: float
    completed: tuple[float, ...]

    @classmethod
    def of(cls, episodes: Sequence[EpisodeLine], last_update: float) -> RunTimes:
        """From all episodes of a run and the second at which its last update was over."""
        begun = (episode.ended - episode.seconds for episode in episodes if episode.turns)
        times = (time for episode in episodes for time in episode.completions())
        found = cls(min(begun, default=last_update), last_update, tuple(sorted(times)))
        if found.full.seconds <= 0 or not found.full.transitions:
            raise RunFolderError("no transition was completed before the last update: there is no throughput")
        return found

    @property
    def full(self) -> Window:
        return self._until(self.end)

    def early(self, seconds: float = EARLY_SECONDS) -> Window | None:
        """The first seconds; None for a run that is shorter."""
        return self._until(self.origin + seconds) if seconds <= self.end - self.origin else None

    def _until(self, end: float) -> Window:
        return Window(bisect_right(self.completed, end), end - self.origin)


@dataclass(frozen=True, slots=True)
class Decomposition:
    """speedup = throughput / transitions: seconds are transitions over throughput."""

    throughput: float
    transitions: float

    @property
    def speedup(self) -> float:
        return self.throughput / self.transitions

    @property
    def fewer(self) -> float:
        """Percent of transitions that are spared; negative where there are more."""
        return 100.0 * (1.0 - self.transitions)


def decompose(base: Window, other: Window) -> Decomposition:
    """How `other` is faster than `base`: its throughput and its transitions as multiples of the base's."""
    return Decomposition(other.rate / base.rate, other.transitions / base.transitions)


def times_of(run: Run) -> RunTimes:
    """The times of a run."""
    episodes = list(run.episodes())
    if not run.updates or not any(episode.ended for episode in episodes):
        raise RunFolderError(f"{run.folder} does not say when its transitions happened; make the run again")
    return RunTimes.of(episodes, max(line.training_seconds for line in run.updates))
