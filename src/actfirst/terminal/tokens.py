"""Tokens per second by kind, from engine counters.

Engines count generated tokens as a whole. How many of them were fast actions is known when an episode ends, so
the split between fast and full follows the truth with the delay of an episode.
"""

from __future__ import annotations

from collections import deque
from dataclasses import astuple, dataclass

from actfirst.records import EngineStats


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Counters of both engines together, or their rates."""

    fast: float
    full: float
    prefill: float
    cached: float
    scored: float

    @classmethod
    def of(cls, student: EngineStats, teacher: EngineStats, fast_tokens: int) -> TokenCounts:
        generated = student.generated_tokens + teacher.generated_tokens
        return cls(
            fast=fast_tokens,
            full=generated - fast_tokens,
            prefill=student.prefilled_tokens + teacher.prefilled_tokens,
            cached=student.cached_tokens + teacher.cached_tokens,
            scored=student.scored_tokens + teacher.scored_tokens,
        )

    def per_second(self, since: TokenCounts, seconds: float) -> TokenCounts:
        pairs = zip(astuple(self), astuple(since), strict=True)
        return TokenCounts(*(max(0.0, (now - before) / seconds) for now, before in pairs))


class TokenMeter:
    """Rates over the latest `window` seconds."""

    def __init__(self, window: float = 20.0) -> None:
        self._window = window
        self._seen: deque[tuple[float, TokenCounts]] = deque()

    def observe(self, now: float, counts: TokenCounts) -> None:
        self._seen.append((now, counts))
        # The oldest reading that is kept is the last one before the window began.
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window:
            self._seen.popleft()

    def per_second(self) -> TokenCounts | None:
        """None until two readings lie apart."""
        if len(self._seen) < 2:
            return None
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        return last.per_second(first, ended - began) if ended > began else None
