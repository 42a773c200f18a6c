"""Who chooses the action that advances the environment (paper, Sections 4.1 and 4.2)."""

from actfirst.acting.autonomous import NextAction, Stop, ThinkThenAct
from actfirst.acting.base import Actor, Counter, Ending, EpisodeTools, Move, Plan, Probe, Progress
from actfirst.acting.policy import Policy
from actfirst.acting.referenced import BackToFront, Guided, ReplayReference, first_fraction

__all__ = [
    "Actor",
    "BackToFront",
    "Counter",
    "Ending",
    "EpisodeTools",
    "Guided",
    "Move",
    "NextAction",
    "Plan",
    "Policy",
    "Probe",
    "Progress",
    "ReplayReference",
    "Stop",
    "ThinkThenAct",
    "first_fraction",
]
