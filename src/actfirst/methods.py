"""A method is four small values; this table is all there is to it.

Adding a method is adding a row. No environment, no engine and no learner is named here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from actfirst.acting import Guided, NextAction, Plan, ReplayReference, Stop, ThinkThenAct, first_fraction
from actfirst.depth import Depth, FullDepth
from actfirst.turn_weights import TurnWeights, Uniform


class ResponseTiming(StrEnum):
    """When full responses are generated."""

    INLINE = "inline"  # the response of a turn also acts, so the environment waits for it
    DEFERRED = "deferred"  # responses are generated from visited contexts, off the critical path


@dataclass(frozen=True)
class Method:
    """One row: who acts, how deep, when responses are generated, and how turns weigh in the loss."""

    title: str
    acting: Plan
    responses: ResponseTiming
    depth: Depth = field(default_factory=FullDepth)
    turn_weights: TurnWeights = field(default_factory=Uniform)


METHODS: dict[str, Method] = {
    "vanilla": Method("Vanilla OPD", ThinkThenAct(), ResponseTiming.INLINE),
    "actfirst": Method("ActFirst-OPD", Guided(then=NextAction()), ResponseTiming.DEFERRED),
    "actfirst-no-id": Method("ActFirst w/o inverse dynamics", NextAction(), ResponseTiming.DEFERRED),
    "actfirst-no-fallback": Method("ActFirst w/o NAP fallback", Guided(then=Stop()), ResponseTiming.DEFERRED),
    "replay-50": Method(
        "Reference-prefix replay (50 %)",
        ReplayReference(first_fraction(0.5), then=NextAction()),
        ResponseTiming.DEFERRED,
    ),
    "replay-100": Method("Reference-prefix replay (100 %)", ReplayReference(), ResponseTiming.DEFERRED),
}
