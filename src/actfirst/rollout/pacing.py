"""When acting first cannot pay under the engine's cap, and what to do then.

Paper, appendix "Finite-Concurrency Constraints": under a cap b on concurrent requests, overlapped rollouts of N
tasks with T turns take at least max((T - 1) l_fast + l_full, (N T l_fast + M l_full) / b) for M full responses;
think-then-act takes max(T, N T / b) l_full. With b = N and a response for every turn the fast actions are work that
overlap cannot hide (0.80x to 0.92x in the paper's measurement). The latencies are those that the engine itself has
measured in rollouts. This is an option of ours: the paper always acts first.
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.records import EngineStats


@dataclass(frozen=True, slots=True)
class Load:
    """A rollout batch as the bounds see it: latencies in seconds, `responses` in all, `cap` on requests (or inf)."""

    tasks: int
    turns: float
    responses: float
    cap: float
    fast: float
    full: float

    @property
    def chain(self) -> float:
        """What one task waits for when it acts first: its fast actions, and the last response at the end."""
        return (self.turns - 1) * self.fast + self.full

    @property
    def overlapped(self) -> float:
        """The least time of acting first: by the chain of one task, or by the work of all under the cap."""
        work = (self.tasks * self.turns * self.fast + self.responses * self.full) / self.cap
        return max(self.chain, work)

    @property
    def sequential(self) -> float:
        """The least time of think-then-act, in which every turn has a response."""
        return max(1.0, self.tasks / self.cap) * self.turns * self.full

    @property
    def overlap_pays(self) -> bool:
        return self.overlapped < self.sequential


class Pacer:
    """Decides batch by batch, by the latencies of the batches that acted first: an engine also serves evaluations,
    whose requests are others. What it has once found stays: after that no fast action is measured any more."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._too_narrow = False
        self._fast_seconds = self._full_seconds = 0.0
        self._actions = self._responses = 0

    def learn(self, before: EngineStats, after: EngineStats, responses: int) -> None:
        """What the engine's counters say of a batch that acted first; a response may take several requests."""
        self._fast_seconds += after.fast_seconds - before.fast_seconds
        self._full_seconds += after.full_seconds - before.full_seconds
        self._actions += after.fast_ended - before.fast_ended
        self._responses += responses

    def acts_first(self, tasks: int, contexts: float, responses: float) -> bool:
        """Whether the next batch should act first; always as long as nothing is known."""
        if not self._too_narrow and self._actions and self._responses and contexts:
            fast, full = self._fast_seconds / self._actions, self._full_seconds / self._responses
            load = Load(tasks, contexts / tasks, min(responses, contexts), self._cap, fast, full)
            self._too_narrow = not load.overlap_pays
        return not self._too_narrow
