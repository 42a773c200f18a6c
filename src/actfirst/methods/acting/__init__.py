"""Who chooses the action that advances the environment (paper, Sections 4.1 and 4.2)."""

from actfirst.methods.acting.autonomous import NextAction, Stop, ThinkThenAct
from actfirst.methods.acting.base import (
    Acting,
    Actor,
    Counter,
    Ending,
    EpisodeTools,
    Move,
    TrainingPoint,
)
from actfirst.methods.acting.referenced import (
    BackToFront,
    Guided,
    ReplayReference,
    WithoutReference,
    first_fraction,
)
from actfirst.policy.agent import Policy
from actfirst.records import Probe

__all__ = [
    "Acting",
    "Actor",
    "BackToFront",
    "Counter",
    "Ending",
    "EpisodeTools",
    "Guided",
    "Move",
    "NextAction",
    "Policy",
    "Probe",
    "ReplayReference",
    "Stop",
    "ThinkThenAct",
    "TrainingPoint",
    "WithoutReference",
    "first_fraction",
]
