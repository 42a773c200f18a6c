"""Which requests are in the engine and what each step computes of them. Knows nothing of tensors.

One cap covers all requests. In a step every running generation advances by one token, and prompts are prefilled
within a budget of tokens; longer ones are cut into chunks. Fast requests go before full ones, first come first
served within a class: a waiting full request never delays a fast one. Full ones wait as long as fast ones fill
the cap; a rollout's fast requests are few and short.

Decoding sequences hold slots [0, decoding), those still in prefill the slots above.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from actfirst.engines.base import Priority
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.model import Span
from actfirst.engines.embedded.prefix_cache import BLOCK, PrefixCache
from actfirst.engines.embedded.sequence import Scoring, Sequence


@dataclass(frozen=True, slots=True)
class Work:
    """One chunk of prefill in a step. `loaded` blocks before it are first copied from the prefix cache."""

    sequence: Sequence
    span: Span
    loaded: int = 0


class Scheduler:
    def __init__(
        self, cache: KVCache, prefix: PrefixCache | None, *, max_concurrency: int, max_prefill_tokens: int
    ) -> None:
        self._cache = cache
        self._prefix = prefix
        self._max_concurrency = max_concurrency
        self._max_prefill_tokens = max_prefill_tokens
        self._waiting: dict[Priority, deque[Sequence]] = {priority: deque() for priority in Priority}
        self.running: list[Sequence] = []
        self.decoding = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, sequence: Sequence) -> None:
        self._waiting[sequence.priority].append(sequence)

    def sequences(self) -> list[Sequence]:
        """Everything running or waiting."""
        return [*self.running, *(s for queue in self._waiting.values() for s in queue)]

    def plan(self, *, admit: bool) -> list[Work]:
        """The prefill of the next step, scoring last. With `admit` false only running prompts go on."""
        budget = self._max_prefill_tokens
        work: list[Work] = []
        being_computed: set[bytes] = set()
        for priority in Priority:
            started = [s for s in self.running[self.decoding :] if s.priority is priority and not s.prefilled]
            queue = self._waiting[priority]
            deferred: list[Sequence] = []
            while budget > 0:
                if started:
                    sequence, loaded = started.pop(0), 0
                elif admit and queue and len(self.running) < self._max_concurrency:
                    sequence = queue.popleft()
                    loaded = self._cached_blocks(sequence)
                    if self._is_being_computed(sequence, loaded, being_computed):
                        sequence.deferred = True
                        deferred.append(sequence)
                        continue
                    self._admit(sequence, loaded)
                else:
                    break
                span = self._span(sequence, budget)
                budget -= span.stop - span.start
                being_computed.update(sequence.keys[span.start // BLOCK : span.stop // BLOCK])
                work.append(Work(sequence, span, loaded))
            queue.extendleft(reversed(deferred))
        return sorted(work, key=lambda item: isinstance(item.sequence, Scoring))

    def promote(self, sequence: Sequence) -> None:
        """Its prompt is done: move it among the decoding sequences."""
        first = self.decoding
        if sequence.slot != first:
            other = self.running[first]
            self._cache.swap(first, sequence.slot, max(other.stored, sequence.stored))
            self._place(other, sequence.slot)
            self._place(sequence, first)
        self.decoding += 1

    def remove(self, sequence: Sequence) -> None:
        """Take a request out, wherever it is; the slots stay compact."""
        if sequence.slot < 0:
            self._waiting[sequence.priority].remove(sequence)
            return
        hole = sequence.slot
        if hole < self.decoding:
            self.decoding -= 1
            hole = self._fill(hole, self.decoding)
        self._fill(hole, len(self.running) - 1)
        self.running.pop()
        sequence.slot = -1

    def _fill(self, hole: int, source: int) -> int:
        """Move the sequence in slot `source` into the hole; the new hole is where it was."""
        if source != hole:
            moved = self.running[source]
            self._cache.move(source, hole, moved.stored)
            self._place(moved, hole)
        return source

    def _place(self, sequence: Sequence, slot: int) -> None:
        sequence.slot = slot
        self.running[slot] = sequence

    def _cached_blocks(self, sequence: Sequence) -> int:
        return self._prefix.match(_usable(sequence)) if self._prefix is not None else 0

    def _is_being_computed(self, sequence: Sequence, loaded: int, being_computed: set[bytes]) -> bool:
        """Whether this very step computes the next block it needs: then it waits one step, once, and copies."""
        return not sequence.deferred and any(key in being_computed for key in _usable(sequence)[loaded:])

    def _admit(self, sequence: Sequence, loaded: int) -> None:
        sequence.slot = len(self.running)
        sequence.computed = loaded * BLOCK
        self.running.append(sequence)

    def _span(self, sequence: Sequence, budget: int) -> Span:
        start = sequence.computed
        stop = min(len(sequence.ids), start + budget)
        return Span(sequence.slot, start, stop, wanted=sequence.prompt_length - 1)


def _usable(sequence: Sequence) -> tuple[bytes, ...]:
    """The blocks it may take from the cache. The last prompt token is always computed, for its logits."""
    return sequence.keys[: (sequence.prompt_length - 1) // BLOCK]
