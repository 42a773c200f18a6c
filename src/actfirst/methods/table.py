"""A method is four small values; this table is all there is to it.

Adding a method is adding a row (docs/methods.md). No environment, no engine and no learner is named here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from actfirst.config.config import Config
from actfirst.config.sections import MethodsSection
from actfirst.methods.acting import (
    BackToFront,
    Guided,
    NextAction,
    Plan,
    ReplayReference,
    Stop,
    ThinkThenAct,
    first_fraction,
)
from actfirst.methods.depth import Depth, FullDepth, GrowingDepth, ProbedDepth
from actfirst.methods.turn_weights import TokenToTurn, TurnWeights, Uniform


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


def table(constants: MethodsSection) -> dict[str, Method]:
    """All methods, with the constants that a recipe may change."""
    inline, deferred = ResponseTiming.INLINE, ResponseTiming.DEFERRED
    f2b, b2f, turnopd = constants.tcod_f2b, constants.tcod_b2f, constants.turnopd_style
    return {
        "vanilla": Method("Vanilla OPD", ThinkThenAct(), inline),
        "tcod-f2b": Method("TCOD-F2B", ThinkThenAct(), inline, GrowingDepth(f2b.every, f2b.counter)),
        "tcod-b2f": Method(
            "TCOD-B2F", ReplayReference(BackToFront(b2f.every, b2f.counter), then=ThinkThenAct()), inline
        ),
        "turnopd-style": Method(
            "TurnOPD-style (reconstruction)",
            ThinkThenAct(),
            inline,
            ProbedDepth(
                turnopd.probe_every,
                turnopd.share,
                turnopd.smoothing,
                turnopd.least_depth,
                turnopd.epsilon,
            ),
            TokenToTurn(turnopd.warm),
        ),
        "actfirst": Method("ActFirst-OPD", Guided(then=NextAction()), deferred),
        "actfirst-no-id": Method("ActFirst w/o inverse dynamics", NextAction(), deferred),
        "actfirst-no-fallback": Method("ActFirst w/o NAP fallback", Guided(then=Stop()), deferred),
        "replay-50": Method(
            "Reference-prefix replay (50 %)",
            ReplayReference(first_fraction(0.5), then=NextAction()),
            deferred,
        ),
        "replay-100": Method("Reference-prefix replay (100 %)", ReplayReference(), deferred),
    }


METHODS: dict[str, Method] = table(MethodsSection())
"""The table with the default constants: names, titles, and what each method needs."""


def method_of(config: Config) -> Method:
    """The method of a run, with the run's own constants."""
    return table(config.methods)[config.rollout.method]
