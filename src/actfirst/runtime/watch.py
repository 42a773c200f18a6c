"""Those who watch a run: a live panel, plain lines, nothing. Watching never changes what happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from actfirst.engines.base import EngineStats
from actfirst.evaluate.results import Evaluation
from actfirst.records import Episode
from actfirst.rollout.collect import RolloutBatch


class Watcher(Protocol):
    """Told of everything that a person may want to see."""

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None: ...

    def stage(self, name: str) -> None: ...

    def episode(self, episode: Episode) -> None: ...

    def batch(self, batch: RolloutBatch, line: Mapping[str, object]) -> None: ...

    def update(self, line: Mapping[str, object]) -> None: ...

    def evaluated(self, who: str, evaluation: Evaluation, seconds: float) -> None: ...

    def finished(self, summary: Mapping[str, object]) -> None: ...


class EngineView(Protocol):
    """A read-only look at the engines and the buffer, for queue depths and token rates."""

    def student(self) -> EngineStats: ...

    def teacher(self) -> EngineStats: ...

    def buffered(self) -> int: ...


class Unwatched:
    """Nobody looks."""

    def started(self, title: str, updates: int, done: int, engine: EngineView) -> None: ...

    def stage(self, name: str) -> None: ...

    def episode(self, episode: Episode) -> None: ...

    def batch(self, batch: RolloutBatch, line: Mapping[str, object]) -> None: ...

    def update(self, line: Mapping[str, object]) -> None: ...

    def evaluated(self, who: str, evaluation: Evaluation, seconds: float) -> None: ...

    def finished(self, summary: Mapping[str, object]) -> None: ...
