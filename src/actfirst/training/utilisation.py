"""Samples how busy GPUs and processor are while a run trains, in a thread that sleeps nearly all the time.

One sample a second for the first ten minutes, which the paper's figure shows, then one every five seconds: about 110
bytes each, so 60 kB for the first ten minutes and 80 kB an hour after that. Looking costs a few milliseconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import psutil

from actfirst.errors import RunFolderError
from actfirst.runs.utilisation import UtilisationLine

EARLY_SECONDS = 600.0
_PARTS = ("engine", "learner")


def pause(seconds: float) -> float:
    """How long to wait for the next sample, after so many seconds of sampling."""
    return 1.0 if seconds < EARLY_SECONDS else 5.0


class Utilisation:
    """Tells `keep` a line now and then, from `start` to `close`. A line that cannot be written ends the sampling: a run
    does not fail because of a measurement."""

    def __init__(
        self,
        now: Callable[[], float],
        keep: Callable[[UtilisationLine], None],
        gpus: Sequence[Gpu] | None = None,
    ) -> None:
        self._now, self._keep = now, keep
        self._gpus = find_gpus() if gpus is None else gpus
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="utilisation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Calling it twice is allowed, also before `start`."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _sample(self) -> None:
        begun = at = time.monotonic()
        before = part_seconds()
        while not self._ended.wait(pause(at - begun)):
            used, then = part_seconds(), at
            at = time.monotonic()
            line = UtilisationLine(
                seconds=round(self._now(), 2),
                gpus=tuple(gpu() for gpu in self._gpus),
                parts=percent(before, used, at - then),
            )
            before = used
            try:
                self._keep(line)
            except RunFolderError:
                return


Gpu = Callable[[], float]
"""Reads how busy one GPU is, in percent."""


def find_gpus() -> list[Gpu]:
    """The GPUs of this machine that NVML knows; none where it is not installed or finds no driver."""
    try:
        nvml: Any = import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no package, no library, no driver: all mean that there is nothing to read
        return []

    def read(handle: Any) -> float:
        try:
            return float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except nvml.NVMLError:
            return 0.0

    handles = [nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount())]
    return [lambda handle=handle: read(handle) for handle in handles]  # type: ignore[misc]


def part_seconds() -> dict[str, float]:
    """Processor seconds so far, by part."""
    process = psutil.Process()
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    used = dict.fromkeys((*_PARTS, "other", "workers"), 0.0)
    for thread in process.threads():
        used[_part(names.get(thread.id, ""))] += thread.user_time + thread.system_time
    for child in process.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile
        used["workers"] += times.user + times.system
    return used


def percent(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Percent of one core. A part whose threads or processes ended meanwhile has less than before: that is 0."""
    return {
        part: round(100.0 * max(0.0, used - before.get(part, 0.0)) / seconds, 1) for part, used in after.items()
    }


def _part(thread: str) -> str:
    return next((part for part in _PARTS if part in thread), "other")
