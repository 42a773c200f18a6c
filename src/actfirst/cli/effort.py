"""What a long command cost: processor time, worker processes included, and time on the clock."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

from actfirst.terminal.visible import say


@dataclass(frozen=True, slots=True)
class Effort:
    """What both clocks show, or the time between two readings.

    `processor_seconds` is the time of this process and of every process that was ended and waited for: workers, and the
    simulators that they started. Processes that a hung or dead worker had started are not included.
    """

    processor_seconds: float
    seconds: float

    @classmethod
    def now(cls) -> Effort:
        used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(sum(one.ru_utime + one.ru_stime for one in used), time.monotonic())

    def since(self, before: Effort) -> Effort:
        return Effort(
            round(self.processor_seconds - before.processor_seconds, 2), round(self.seconds - before.seconds, 2)
        )


def print_effort(effort: Effort) -> None:
    say(f"{effort.processor_seconds:.1f} s of processor time, workers included, in {effort.seconds:.1f} s")
