"""Which requests are in the engine and what each step computes of them. Knows nothing of tensors.

One cap covers all requests. In a step every running generation advances by one token (or by its draft), and
prompts are prefilled within a budget of tokens; longer ones are cut into chunks. Without `priority` requests are
admitted in the order in which they came. With it, fast requests go before full ones, first come first served within a
class: a waiting full request never delays a fast one. With `preempt` too, running ones do not either: when all places
are taken, the youngest full responses pause for the few steps that a fast action needs. They keep what they have
computed, so pausing costs two copies and no tokens.

Decoding sequences hold slots [0, decoding), those still in prefill the slots above; paused ones hold none.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from actfirst.engines.base import Priority
from actfirst.engines.embedded.kv_cache import KVCache, Parked
from actfirst.engines.embedded.model import Span
from actfirst.engines.embedded.prefix_cache import BLOCK, PrefixCache
from actfirst.engines.embedded.sequence import Scoring, Sequence


@dataclass(frozen=True, slots=True)
class Work:
    """One chunk of prefill in a step. `loaded` blocks before it are first copied from the prefix cache."""

    sequence: Sequence
    span: Span
    loaded: int = 0


class Places:
    """The cap on running requests, over all `schedulers` that share it; there is one for each set of weights in use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.schedulers: list[Scheduler] = []
        self.paused = 0

    @property
    def taken(self) -> int:
        return sum(len(scheduler.running) for scheduler in self.schedulers)

    @property
    def free(self) -> bool:
        return self.taken < self._most

    def pause_youngest(self) -> bool:
        """Take the full response out that was admitted last: the older ones are nearer to their end."""
        full = [
            (sequence.admitted, sequence, scheduler)
            for scheduler in self.schedulers
            for sequence in scheduler.running[: scheduler.decoding]
            if sequence.priority is Priority.FULL
        ]
        if not full:
            return False
        _, youngest, scheduler = max(full, key=lambda item: item[0])
        scheduler.pause(youngest)
        self.paused += 1
        return True


class Scheduler:
    """`version` is that of the weights on which requests begin. `changes` counts how often the set of decoding
    sequences, or their slots, changed.
    """

    def __init__(
        self,
        cache: KVCache,
        prefix: PrefixCache | None,
        places: Places,
        *,
        max_prefill_tokens: int,
        priority: bool = True,
        preempt: bool = False,
    ) -> None:
        self._cache = cache
        self._prefix = prefix
        self._max_prefill_tokens = max_prefill_tokens
        self._priority = priority
        self._preempt = preempt and priority
        self.places = places
        self.version = 0
        self._waiting: dict[Priority, deque[Sequence]] = {priority: deque() for priority in Priority}
        self._paused: dict[Sequence, Parked] = {}
        self.running: list[Sequence] = []
        self.decoding = 0
        self.changes = 0

    @property
    def waiting(self) -> bool:
        return any(self._waiting.values())

    @property
    def fast_waits(self) -> bool:
        return bool(self._waiting[Priority.FAST])

    @property
    def begun(self) -> bool:
        """Whether anything has begun and not ended."""
        return bool(self.running or self._paused)

    def add(self, sequence: Sequence) -> None:
        self._waiting[self._class(sequence)].append(sequence)

    def hand_over(self) -> list[Sequence]:
        """Everything that waits, in its order, for another scheduler to take."""
        waiting = [sequence for queue in self._waiting.values() for sequence in queue]
        for queue in self._waiting.values():
            queue.clear()
        return waiting

    def sequences(self) -> list[Sequence]:
        """Everything running, paused or waiting."""
        return [*self.running, *self._paused, *(s for queue in self._waiting.values() for s in queue)]

    def plan(self, *, admit: bool) -> list[Work]:
        """The prefill of the next step, scoring last. With `admit` false only what has begun goes on."""
        budget = self._max_prefill_tokens
        chunks: list[tuple[Sequence, int, int]] = []  # (sequence, end of its chunk, loaded blocks)
        being_computed: set[bytes] = set()
        for priority in Priority:
            if priority is Priority.FULL:
                self._resume()
            started = [
                s for s in self.running[self.decoding :] if self._class(s) is priority and not s.prefilled
            ]
            queue = self._waiting[priority]
            deferred: list[Sequence] = []
            while budget > 0:
                if started:
                    sequence, loaded = started.pop(0), 0
                elif admit and queue and self._has_place(priority):
                    sequence = queue.popleft()
                    loaded = self._cached_blocks(sequence)
                    if self._is_being_computed(sequence, loaded, being_computed):
                        sequence.deferred = True
                        deferred.append(sequence)
                        continue
                    self._admit(sequence, loaded)
                else:
                    break
                start, stop = sequence.computed, _chunk_end(sequence, budget)
                budget -= stop - start
                being_computed.update(sequence.keys[start // BLOCK : stop // BLOCK])
                chunks.append((sequence, stop, loaded))
            queue.extendleft(reversed(deferred))
        chunks.sort(key=lambda chunk: isinstance(chunk[0], Scoring))
        # Slots are final only now: pausing and resuming move sequences.
        return [Work(sequence, _span(sequence, stop), loaded) for sequence, stop, loaded in chunks]

    def promote(self, sequence: Sequence) -> None:
        """Its prompt is done: move it among the decoding sequences."""
        first = self.decoding
        if sequence.slot != first:
            other = self.running[first]
            self._cache.swap(first, sequence.slot, max(other.stored, sequence.stored))
            self._place(other, sequence.slot)
            self._place(sequence, first)
        self.decoding += 1
        self.changes += 1

    def remove(self, sequence: Sequence) -> None:
        """Take a request out, wherever it is; the slots stay compact."""
        if sequence.slot >= 0:
            self._vacate(sequence)
        elif self._paused.pop(sequence, None) is None:
            self._waiting[self._class(sequence)].remove(sequence)

    def pause(self, sequence: Sequence) -> None:
        """Take a decoding sequence out of its slot, to go on later."""
        self._paused[sequence] = self._cache.park(sequence.slot, sequence.stored)
        self._vacate(sequence)

    def _class(self, sequence: Sequence) -> Priority:
        """The queue that it belongs to: without priorities there is one for all."""
        return sequence.priority if self._priority else Priority.FULL

    def _vacate(self, sequence: Sequence) -> None:
        hole = sequence.slot
        if hole < self.decoding:
            self.decoding -= 1
            self.changes += 1
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

    def _has_place(self, priority: Priority) -> bool:
        """Whether one more may run; for a fast request a place is made if that can be done."""
        if self.places.free:
            return True
        return self._preempt and priority is Priority.FAST and self.places.pause_youngest()

    def _resume(self) -> None:
        """Let paused ones go on while there are places, the oldest first."""
        if any(other.fast_waits for other in self.places.schedulers if other is not self):
            return  # on newer weights: it gets the place in this very step
        for sequence in sorted(self._paused, key=lambda s: s.admitted):
            if not self.places.free:
                return
            parked = self._paused.pop(sequence)
            sequence.slot = len(self.running)
            self.running.append(sequence)
            self._cache.reserve(len(self.running), sequence.stored)
            self._cache.restore(parked, sequence.slot)
            self.promote(sequence)

    def _cached_blocks(self, sequence: Sequence) -> int:
        return self._prefix.match(_usable(sequence)) if self._prefix is not None else 0

    def _is_being_computed(self, sequence: Sequence, loaded: int, being_computed: set[bytes]) -> bool:
        """Whether this very step computes the next block it needs: then it waits one step, once, and copies."""
        return not sequence.deferred and any(key in being_computed for key in _usable(sequence)[loaded:])

    def _admit(self, sequence: Sequence, loaded: int) -> None:
        sequence.slot = len(self.running)
        sequence.computed = loaded * BLOCK
        sequence.admitted = time.perf_counter()
        sequence.version = self.version
        self.running.append(sequence)


def _chunk_end(sequence: Sequence, budget: int) -> int:
    """Where its next chunk ends; a draft is verified with the last one."""
    stop = min(len(sequence.ids), sequence.computed + budget)
    return stop + len(sequence.drafted) if stop == len(sequence.ids) else stop


def _span(sequence: Sequence, stop: int) -> Span:
    return Span(sequence.slot, sequence.computed, stop, wanted=sequence.prompt_length - 1)


def _usable(sequence: Sequence) -> tuple[bytes, ...]:
    """The blocks it may take from the cache. The last prompt token is always computed, for its logits."""
    return sequence.keys[: (sequence.prompt_length - 1) // BLOCK]
