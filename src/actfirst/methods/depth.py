"""How many turns of a rollout are played during training. Evaluation always plays the full horizon.

`FullDepth` is what the paper's own methods use, `GrowingDepth` TCOD's front-to-back curriculum. `ProbedDepth` is a
reconstruction of TurnOPD's adaptive depth: what is published of it are its ideas, not its constants.

A rule is a value. What `ProbedDepth` has learnt is a value too (`TrainingPoint.probe`), carried from batch to batch by
whoever runs them and stored with checkpoints.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from actfirst.methods.acting.base import Counter, TrainingPoint
from actfirst.records import Probe, TurnSample


class Depth(Protocol):
    """One depth rule."""

    def limit(self, turn_limit: int, point: TrainingPoint) -> int:
        """The turns that rollouts of a batch may use; `point` is how things stood when it began."""
        ...

    def learn(self, turn_limit: int, point: TrainingPoint, samples: Sequence[TurnSample]) -> Probe | None:
        """What is known of useful depths after a batch; None for a rule that learns nothing."""
        return None


@dataclass(frozen=True)
class FullDepth(Depth):
    """Every rollout may use the environment's whole turn limit."""

    def limit(self, turn_limit: int, point: TrainingPoint) -> int:
        return turn_limit


@dataclass(frozen=True)
class GrowingDepth(Depth):
    """TCOD-F2B: k(n) = min(1 + floor(n / every), turn limit), n in steps of `counter`. The rollout just ends there."""

    every: int
    counter: Counter

    def limit(self, turn_limit: int, point: TrainingPoint) -> int:
        return min(1 + point.steps(self.counter) // self.every, turn_limit)


@dataclass(frozen=True)
class ProbedDepth(Depth):
    """TurnOPD-style: whole rollouts every `probe_every` updates say how many turns are worth playing in between.

    A probe is one rollout batch at full depth; it is trained on like any other. The utility of turn t is
    u_t = s_t max(mu_t, 0) / (sigma_t + epsilon), where s_t is the share of trajectories that reach it, and mu_t and
    sigma_t are mean and deviation, over those trajectories, of minus the mean advantage of its response (the mean
    token KL log pi_old - log pi_T). The depth holds `share` of all utility, is smoothed over probes and never below
    `least`.
    """

    probe_every: int
    share: float
    smoothing: float
    least: int
    epsilon: float

    def limit(self, turn_limit: int, point: TrainingPoint) -> int:
        if point.probe is None or self._probes(point):
            return turn_limit
        return min(math.ceil(point.probe.depth), turn_limit)

    def learn(self, turn_limit: int, point: TrainingPoint, samples: Sequence[TurnSample]) -> Probe | None:
        if not self._probes(point) or not samples:
            return point.probe
        found = float(useful_depth(turn_utilities(samples, self.epsilon), self.share) or turn_limit)
        if point.probe is not None:
            found = self.smoothing * found + (1.0 - self.smoothing) * point.probe.depth
        return Probe(point.update, min(max(found, float(self.least)), float(turn_limit)))

    def _probes(self, point: TrainingPoint) -> bool:
        return point.probe is None or point.update - point.probe.update >= self.probe_every


def turn_utilities(samples: Sequence[TurnSample], epsilon: float) -> list[float]:
    """The utility of turns 1, 2, ...; a turn that one trajectory alone reached has no deviation and counts 0."""
    by_turn: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        by_turn[sample.turn].append(_mean_kl(sample))
    begun = len(by_turn[1])
    utilities = []
    for turn in range(1, max(by_turn) + 1):
        gaps = by_turn[turn]
        if len(gaps) < 2 or not begun:
            utilities.append(0.0)
            continue
        mean, deviation = statistics.fmean(gaps), statistics.pstdev(gaps)
        utilities.append(len(gaps) / begun * max(mean, 0.0) / (deviation + epsilon))
    return utilities


def useful_depth(utilities: Sequence[float], share: float) -> int | None:
    """The smallest depth that holds `share` of all utility; None where there is none to share."""
    total, held = sum(utilities), 0.0
    for turn, utility in enumerate(utilities, start=1):
        held += utility
        # The last turn holds everything, whatever the rounding of the sum.
        if total > 0 and (held >= share * total or turn == len(utilities)):
            return turn
    return None


def _mean_kl(sample: TurnSample) -> float:
    return -statistics.fmean(advantage for advantage, kept in zip(sample.advantages, sample.mask) if kept)
