"""Which of several equal servers gets the next request: the one with the fewest of ours under way.

A server that failed rests for a while, longer with each failure in a row. Without that a dead server, which
refuses at once and so never has anything under way, would look like the least loaded one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

_FIRST_REST = 1.0  # seconds
_LONGEST_REST = 30.0


@dataclass(slots=True, eq=False)
class Replica:
    """One server. `failures` counts those in a row; `used` orders servers that are equally loaded."""

    url: str
    running: int = 0
    failures: int = 0
    rests_until: float = 0.0
    used: int = 0


class Replicas:
    """All servers of one model."""

    def __init__(self, urls: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.all = tuple(Replica(url.rstrip("/")) for url in urls)
        self._clock = clock
        self._chosen = 0

    def choose(self, avoid: Collection[Replica] = ()) -> Replica:
        """The least loaded server, if possible one that is awake and not among `avoid`."""
        now = self._clock()
        self._chosen += 1
        best = min(self.all, key=lambda r: (r.rests_until > now, r in avoid, r.running, r.used))
        best.used = self._chosen
        return best

    def succeeded(self, replica: Replica) -> None:
        replica.failures, replica.rests_until = 0, 0.0

    def failed(self, replica: Replica) -> None:
        replica.failures += 1
        rest = min(_LONGEST_REST, _FIRST_REST * 2.0 ** (replica.failures - 1))
        replica.rests_until = self._clock() + rest
