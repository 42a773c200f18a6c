"""Where the time of a run goes.

Training time is from the start of training to the end, all of it but evaluation. Stages are those of the loop, and
"start-up" before it: opening engines, environments and cluster, and proving that they fit together. What lies between
stages (writing lines) is "other", so that all stages together are the time that has passed. Process time is from the
launch of the process, as the paper measures it, evaluation included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import psutil

from actfirst.runs.lines import EVALUATION

START_UP, OTHER = "start-up", "other"


class StageClock:
    """Accumulates seconds by stage, in all, and of the process; all carry over when a run is resumed."""

    def __init__(
        self,
        seconds: Mapping[str, float] | None = None,
        elapsed: float = 0.0,
        begun: float | None = None,
        process_seconds: float = 0.0,
    ) -> None:
        self.seconds: dict[str, float] = dict(seconds or {})
        self._carried, self._carried_process = elapsed, process_seconds
        self._begun = time.monotonic() if begun is None else begun
        self.longest: dict[str, float] = {}
        process_age()  # measured before anybody sets the clock

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.count(name, time.monotonic() - started)

    def count(self, name: str, seconds: float) -> None:
        """Add to a stage what was measured elsewhere."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.longest[name] = max(seconds, self.longest.get(name, 0.0))

    def accounts(self) -> dict[str, float]:
        """The seconds of all stages; together they are `elapsed`."""
        return {**self.seconds, OTHER: max(0.0, self.elapsed - sum(self.seconds.values()))}

    @property
    def elapsed(self) -> float:
        return self._carried + time.monotonic() - self._begun

    @property
    def process(self) -> float:
        return self._carried_process + process_age()

    @property
    def training(self) -> float:
        return self.elapsed - self.seconds.get(EVALUATION, 0.0)


def process_age() -> float:
    """Seconds since this process was launched. From the first call on, setting the clock of the day changes nothing."""
    return time.monotonic() - _launched(os.getpid())


@cache
def _launched(process: int) -> float:
    """The moment of the launch on the monotonic clock."""
    return time.monotonic() - (time.time() - float(psutil.Process(process).create_time()))
