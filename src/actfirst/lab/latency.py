"""How long turns take, and how much of that is reasoning (paper, Figure "Rollout latency and quality").

A turn's time is measured from its context to the next observation. How it divides between reasoning and action is an
estimate: engines report no time per token, so it is shared out by the characters of the response before and from its
action field on. Prefill and the environment's step thereby count in proportion, which is little where responses are
long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.lab.spread import Percentiles
from actfirst.runs.episodes import TurnLine

ACTION_FIELD = "<action>"


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """Turn times in seconds, and the share of reasoning (%) of turns that reasoned."""

    turns: int
    seconds: Percentiles
    reasoning: Percentiles | None


def profile(turns: Sequence[TurnLine]) -> LatencyProfile | None:
    """The profile of some turns; None if there are none."""
    if not turns:
        return None
    shares = [100.0 * reasoning_share(turn.response.text) for turn in turns if turn.response is not None]
    return LatencyProfile(
        turns=len(turns),
        seconds=Percentiles.of([turn.seconds for turn in turns]),
        reasoning=Percentiles.of(shares) if shares else None,
    )


def reasoning_share(text: str) -> float:
    """The part of a response that comes before its action; 1 where it never came to act."""
    if not text:
        return 0.0
    before, field, _ = text.partition(ACTION_FIELD)
    return len(before) / len(text) if field else 1.0
