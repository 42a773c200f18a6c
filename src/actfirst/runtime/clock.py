"""Where the time of a run goes. Stages are those of the thread of control; training time excludes evaluation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

EVALUATION = "evaluation"


class StageClock:
    """Accumulates seconds by stage; carries over when a run is resumed."""

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        self.seconds: dict[str, float] = dict(seconds or {})

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    @property
    def training(self) -> float:
        return sum(seconds for name, seconds in self.seconds.items() if name != EVALUATION)
