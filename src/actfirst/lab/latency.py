"""How long turns take, and how much of that is reasoning (paper, Figure "Rollout latency and quality").

A turn's time is measured from its context to the next observation. How it divides between reasoning and action is an
estimate: engines report no time per token, so it is shared out by the characters of the response before and from its
action field on. Prefill and the environment's step thereby count in proportion, which is little where responses are
long.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actfirst.runs.episode_lines import EpisodeLine, TurnLine

ACTION_FIELD = "<action>"


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over turns: mean, median, and the range that 90 % of them lie in."""

    mean: float
    p5: float
    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """Turn times in seconds, overall and of turns that reasoned; `reasoning` is their share of reasoning (%)."""

    turns: int
    seconds: Spread
    reasoned: int
    reasoning: Spread | None
    response_tokens: Spread | None


def profile(turns: Sequence[TurnLine]) -> LatencyProfile | None:
    """The profile of some turns; None if there are none."""
    if not turns:
        return None
    responses = [turn.response for turn in turns if turn.response is not None]
    shares = [100.0 * reasoning_share(response.text) for response in responses]
    return LatencyProfile(
        turns=len(turns),
        seconds=spread([turn.seconds for turn in turns]),
        reasoned=len(responses),
        reasoning=spread(shares) if shares else None,
        response_tokens=spread([float(response.generated_tokens) for response in responses])
        if shares
        else None,
    )


def profile_by_turn(episodes: Iterable[EpisodeLine]) -> dict[int, LatencyProfile]:
    """One profile per turn number: later turns have longer prompts."""
    by_number: dict[int, list[TurnLine]] = {}
    for episode in episodes:
        for turn in episode.turns:
            by_number.setdefault(turn.number, []).append(turn)
    found = {number: profile(by_number[number]) for number in sorted(by_number)}
    return {number: one for number, one in found.items() if one is not None}


def reasoning_share(text: str) -> float:
    """The part of a response that comes before its action; 1 where it never came to act."""
    if not text:
        return 0.0
    before, field, _ = text.partition(ACTION_FIELD)
    return len(before) / len(text) if field else 1.0


def spread(values: Sequence[float]) -> Spread:
    """Percentiles with linear interpolation between the two nearest values."""
    ordered = sorted(values)
    return Spread(
        statistics.fmean(ordered), _percentile(ordered, 5), _percentile(ordered, 50), _percentile(ordered, 95)
    )


def _percentile(ordered: Sequence[float], percent: float) -> float:
    place = (len(ordered) - 1) * percent / 100.0
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
