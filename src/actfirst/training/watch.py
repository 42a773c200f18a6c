"""Those who watch a run: a live panel, plain lines, nobody. Watching never changes what happens."""

from __future__ import annotations

from typing import Protocol

from actfirst.records import EngineStats, Episode
from actfirst.runs.lines import BatchLine, EvaluationLine, Summary, UpdateLine, Who
from actfirst.runs.utilisation import UtilisationLine


class EngineView(Protocol):
    """A read-only look at the engines and the buffer, for queue depths and token rates."""

    def student(self) -> EngineStats: ...

    def teacher(self) -> EngineStats: ...

    def buffered(self) -> int: ...

    def episodes_left(self) -> int:
        """How many episodes of evaluations are still to be played, those of one under way included."""
        ...


class Watcher:
    """Told of everything that a person may want to see. This one looks at nothing; others override what they show."""

    def preparing(self, what: str) -> None:
        """What is being done before the first batch; also called before `started`."""

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None: ...

    def episode(self, episode: Episode) -> None: ...

    def batch(self, line: BatchLine) -> None: ...

    def update(self, line: UpdateLine) -> None: ...

    def evaluating(self, who: Who, done: int, of: int) -> None: ...

    def evaluated(self, line: EvaluationLine) -> None: ...

    def utilised(self, line: UtilisationLine) -> None:
        """Called by a thread of its own."""

    def finished(self, summary: Summary) -> None: ...

    def close(self) -> None:
        """Called when the run ends in whatever way, also by an error; twice is allowed."""
