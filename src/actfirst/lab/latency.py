"""How long turns take, and how much of that is reasoning (paper, Figure "Rollout latency and quality").

A turn's time is measured from its context to the next observation. How much of it is reasoning is told by tokens: the
share of a response's generated tokens up to and including the end of its reasoning. A token takes much the same time
wherever it stands in a response, so this is the share of decoding; prefill and the environment's step count in
proportion, which is little where responses are long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.lab.spread import Percentiles
from actfirst.records import ActionSource
from actfirst.runs.episodes import ResponseLine, TurnLine


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
    # A response that was generated beside its turn is no part of the turn's time.
    acted = [turn for turn in turns if turn.source is ActionSource.THINK]
    responses = [turn.response for turn in acted if turn.response is not None]
    shares = [100.0 * share for response in responses if (share := reasoning_share(response)) is not None]
    return LatencyProfile(
        turns=len(turns),
        seconds=Percentiles.of([turn.seconds for turn in turns]),
        reasoning=Percentiles.of(shares) if shares else None,
    )


def reasoning_share(response: ResponseLine) -> float | None:
    """The part of a response's generated tokens that is reasoning; None where it is not known."""
    if response.reasoning_tokens is None or not response.generated_tokens:
        return None
    return response.reasoning_tokens / response.generated_tokens
