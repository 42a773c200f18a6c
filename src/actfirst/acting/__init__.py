"""Who chooses the action that advances the environment (paper, Sections 4.1 and 4.2)."""

from actfirst.acting.autonomous import NextAction, Stop, ThinkThenAct
from actfirst.acting.base import Actor, Ending, EpisodeTools, Move, Plan, Progress
from actfirst.acting.policy import Policy
from actfirst.acting.referenced import Guided, ReplayReference, first_fraction

__all__ = [
    "Actor",
    "Ending",
    "EpisodeTools",
    "Guided",
    "Move",
    "NextAction",
    "Plan",
    "Policy",
    "Progress",
    "ReplayReference",
    "Stop",
    "ThinkThenAct",
    "first_fraction",
]
