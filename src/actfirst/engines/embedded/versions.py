"""What new weights mean for requests that have begun: a `Stepper` over one runner for each set of weights in use.

With swap = "drain" and "in_flight" there is one runner, and the two differ in when its weights may be replaced. With
"beside" a runner that still has requests when new weights come keeps its own until they have ended, and a second one
takes all that begins from then on. A step then computes one batch for each of the two. A third set of weights has to
wait until the first is no longer needed: requests go on, and begin, meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from actfirst.config.engine_sections import Swap
from actfirst.engines.embedded.runner import Runner
from actfirst.engines.embedded.scheduler import Places
from actfirst.engines.embedded.sequence import Sequence
from actfirst.engines.stepping import Counters, Result


class Versions:
    """`make` gives a runner that has no weights yet. All share the counters and the places."""

    def __init__(self, make: Callable[[Counters, Places], Runner], max_concurrency: int, swap: Swap) -> None:
        self.counters = Counters()
        self._make = make
        self._swap = swap
        self._places = Places(max_concurrency)
        self._runners = [make(self.counters, self._places)]  # the oldest weights first
        self._keep()

    @property
    def running(self) -> int:
        return self._places.taken

    @property
    def begun(self) -> bool:
        return any(runner.scheduler.begun for runner in self._runners)

    @property
    def waiting(self) -> bool:
        return self._newest.scheduler.waiting

    @property
    def drains(self) -> bool:
        return self._swap == "drain"

    @property
    def swappable(self) -> bool:
        if self._swap == "beside":
            return len(self._runners) == 1 or not self._newest.scheduler.begun
        return self._swap == "in_flight" or not self.begun

    def pending(self) -> list[Sequence]:
        return [sequence for runner in self._runners for sequence in runner.scheduler.sequences()]

    def add(self, request: Sequence) -> None:
        self._newest.scheduler.add(request)

    def cancel(self, request: Sequence) -> bool:
        for runner in self._runners:
            if request in runner.scheduler.sequences():
                runner.scheduler.remove(request)
                self._keep()
                return True
        return False

    def step(self, *, admit: bool) -> list[tuple[Sequence, Result]]:
        """One batch for each set of weights; requests that ended are already forgotten."""
        newest = self._newest
        ended = [end for runner in self._runners for end in runner.step(admit=admit and runner is newest)]
        self._keep()
        return ended

    def install(self, weights: Mapping[str, Tensor], version: int) -> None:
        if self._swap == "beside" and self._newest.scheduler.begun:
            waiting = self._newest.scheduler.hand_over()
            self._runners.append(self._make(self.counters, self._places))
            for request in waiting:
                self.add(request)
        self._newest.install(weights, version)
        self._keep()

    def memory(self) -> int:
        """Bytes of weights, slots and prefix caches."""
        return sum(runner.memory() for runner in self._runners)

    def close(self) -> None:
        """Nothing but memory is held."""

    @property
    def _newest(self) -> Runner:
        return self._runners[-1]

    def _keep(self) -> None:
        """Let go of older weights that nothing runs on any more."""
        self._runners = [r for r in self._runners if r is self._newest or r.scheduler.begun]
        self._places.schedulers = [runner.scheduler for runner in self._runners]
