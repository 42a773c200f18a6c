"""Writes in a thread of its own, in order, so that whoever has something to write does not wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """One thread, which starts with the first work. A failure is raised by the next call that can tell of it.

    `processor_seconds` is what the work has cost so far.
    """

    def __init__(self) -> None:
        self.processor_seconds = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="storing")
        self._under_way: list[Future[None]] = []

    def submit(self, work: Callable[[], None]) -> None:
        """Do it when everything before it is done; raises what earlier work failed with."""
        done = [future for future in self._under_way if future.done()]
        self._under_way = [future for future in self._under_way if not future.done()]
        for future in done:
            future.result()
        self._under_way.append(self._thread.submit(self._timed, work))

    def flush(self) -> None:
        """Wait until everything is done; raises what it failed with."""
        futures, self._under_way = self._under_way, []
        for future in futures:
            future.result()

    def close(self) -> None:
        """Wait, and end the thread. Failures have been told, or nobody asks any more."""
        self._thread.shutdown()

    def _timed(self, work: Callable[[], None]) -> None:
        before = time.thread_time()
        try:
            work()
        finally:
            self.processor_seconds += time.thread_time() - before
