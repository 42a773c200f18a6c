"""Advantages from rewards of a group: GiGPO, and what is left of it when its parts are switched off.

For each task a group of trajectories is played from the same initial state. A step's advantage is how much better its
trajectory scored than the group (episode advantage), plus how much more it returned than other steps of the group that
began with the same observation (step advantage). With `step_weight` 0 it is GRPO; without division by the deviation,
REINFORCE with a group baseline.

Order of operations, as in the authors' code: discounted returns of raw rewards; then the penalty of an invalid action,
taken from that row's score and from its own return only; then both normalisations. Pure functions: nothing here knows a
model, a prompt or an environment. The paper's teachers are trained with GiGPO (appendix "Teacher Training").
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Normalisation = Literal["mean_std_norm", "mean_norm"]
Population = Literal["steps", "trajectories"]


@dataclass(frozen=True, slots=True)
class GroupStep:
    """One executed turn as the group sees it.

    `task` names the group, `trajectory` the rollout inside it. `observation` is the anchor: what the environment showed
    before the turn. `reward` is what the turn earned; `score` is what its whole trajectory earned.
    """

    task: str
    trajectory: str
    observation: str
    reward: float
    score: float
    valid: bool = True


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The constants. `similarity` joins anchors that are alike by at least this ratio; None asks for equality.

    `over` says what the mean and deviation of episode scores run over: all step rows of the group, as in the authors'
    code (long trajectories weigh more), or its trajectories.
    """

    discount: float = 0.95
    step_weight: float = 1.0
    normalisation: Normalisation = "mean_std_norm"
    over: Population = "steps"
    similarity: float | None = None
    invalid_penalty: float = 0.1
    epsilon: float = 1e-6


@dataclass(frozen=True, slots=True)
class GroupAdvantages:
    """One value per step, in the order of the steps. `anchors` numbers the clusters of equal observations."""

    returns: tuple[float, ...]
    anchors: tuple[int, ...]
    episode: tuple[float, ...]
    step: tuple[float, ...]
    joint: tuple[float, ...]


def group_advantages(steps: Sequence[GroupStep], settings: GroupSettings) -> GroupAdvantages:
    """Steps of one trajectory must follow each other in time; trajectories and tasks may be in any order."""
    returns = discounted_returns(steps, settings.discount)
    anchors = anchor_groups(steps, settings.similarity)
    penalties = [0.0 if step.valid else settings.invalid_penalty for step in steps]
    penalised = [value - penalty for value, penalty in zip(returns, penalties)]
    scores = [step.score - penalty for step, penalty in zip(steps, penalties)]
    episode = _episode_advantages(steps, scores, settings)
    step = _within_groups(penalised, anchors, settings, alone=0.0)
    joint = [whole + settings.step_weight * part for whole, part in zip(episode, step)]
    return GroupAdvantages(tuple(returns), tuple(anchors), tuple(episode), tuple(step), tuple(joint))


def discounted_returns(steps: Sequence[GroupStep], discount: float) -> list[float]:
    """What each step and those after it in its trajectory earned, later rewards discounted."""
    returns = [0.0] * len(steps)
    following: dict[tuple[str, str], float] = {}
    for place in reversed(range(len(steps))):
        step = steps[place]
        key = (step.task, step.trajectory)
        returns[place] = following[key] = step.reward + discount * following.get(key, 0.0)
    return returns


def anchor_groups(steps: Sequence[GroupStep], similarity: float | None) -> list[int]:
    """Clusters of equal or similar observations inside each task, numbered task by task in order of appearance."""
    by_task: dict[str, list[int]] = defaultdict(list)
    for place, step in enumerate(steps):
        by_task[step.task].append(place)
    labels = [0] * len(steps)
    count = 0
    for places in by_task.values():
        known: dict[str, int] = {}
        first_of: dict[int, str] = {}
        for place in places:
            text = steps[place].observation
            label = known.get(text)
            if label is None:
                label = None if similarity is None else _alike(text, first_of, similarity)
                if label is None:
                    label, first_of[count] = count, text
                    count += 1
                known[text] = label
            labels[place] = label
    return labels


def _alike(text: str, first_of: Mapping[int, str], similarity: float) -> int | None:
    """The first cluster whose first member is similar enough."""
    for label, other in first_of.items():
        matcher = SequenceMatcher(None, text, other)
        # The two quick ratios are upper bounds of the real one and much cheaper.
        if matcher.real_quick_ratio() < similarity or matcher.quick_ratio() < similarity:
            continue
        if matcher.ratio() >= similarity:
            return label
    return None


def _episode_advantages(
    steps: Sequence[GroupStep], scores: Sequence[float], settings: GroupSettings
) -> list[float]:
    if settings.over == "steps":
        return _within_groups(scores, [step.task for step in steps], settings, alone=None)
    by_task: dict[str, dict[str, float]] = defaultdict(dict)
    for step in steps:
        by_task[step.task].setdefault(step.trajectory, step.score)
    scales = {task: _scale(list(found.values()), settings) for task, found in by_task.items()}
    return [(score - scales[step.task][0]) / scales[step.task][1] for step, score in zip(steps, scores)]


def _within_groups(
    values: Sequence[float], groups: Sequence[Hashable], settings: GroupSettings, alone: float | None
) -> list[float]:
    """Each value relative to its group; a value that is alone becomes `alone`, or stays as it is for None."""
    members: dict[Hashable, list[float]] = defaultdict(list)
    for value, group in zip(values, groups):
        members[group].append(value)
    scales = {group: _scale(found, settings) for group, found in members.items()}
    return [
        alone
        if alone is not None and len(members[group]) == 1
        else (value - scales[group][0]) / scales[group][1]
        for value, group in zip(values, groups)
    ]


def _scale(values: Sequence[float], settings: GroupSettings) -> tuple[float, float]:
    """What is subtracted and what is divided by. A single value has mean 0 and deviation 1, as in the authors' code.

    Where all values are equal nothing is divided: the penalty of a turn in a group of equal rewards, whose statistics
    do not know it (`over` trajectories), would become a hundred thousand.
    """
    mean, deviation = (statistics.fmean(values), statistics.stdev(values)) if len(values) > 1 else (0.0, 1.0)
    divides = settings.normalisation == "mean_std_norm" and deviation > settings.epsilon
    return mean, deviation + settings.epsilon if divides else 1.0
