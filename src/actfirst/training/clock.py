"""Where the time of a run goes.

Training time is from the start of training to the end, all of it but evaluation. Stages are those of the loop; what
lies between them (loading, writing lines) is training time too. Process time is from the launch of the process, as the
paper measures it, evaluation included.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from actfirst.runs.lines import EVALUATION


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

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    @property
    def elapsed(self) -> float:
        return self._carried + time.monotonic() - self._begun

    @property
    def process(self) -> float:
        launched: float = psutil.Process().create_time()
        return self._carried_process + time.time() - launched

    @property
    def training(self) -> float:
        return self.elapsed - self.seconds.get(EVALUATION, 0.0)
