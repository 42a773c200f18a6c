"""Objectives that compare the rewards of a group: GiGPO, GRPO, REINFORCE, and distillation plus reward.

The rollouts of one task in a batch are a group. An episode earns its reward at its last turn; the mathematics is in
`group_relative.py`. Rules that no formula states:
- an episode with a recorded error (its environment failed, a prompt did not fit) leaves its group: it counts in no mean
  and gives no sample; so does one whose reward could not be computed, and one that was over before its first turn;
- a group with fewer than two members left gives no samples;
- with dynamic sampling, neither does a group whose rewards are all equal;
- neither does a batch in which no advantage differs from 0: an update would follow rounding errors.
Each reason is counted in the ledger. Every token of a response has the advantage of its turn.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from actfirst.errors import RolloutError
from actfirst.methods.group_relative import GroupSettings, GroupStep, group_advantages
from actfirst.methods.objective import Distillation, Objective, Scored
from actfirst.policy.parsing import END_THINK, THINK
from actfirst.records import Episode, Turn, TurnSample

Reward = Callable[[Episode], float]
"""What an episode earned, in shares of the whole."""
Invalid = Callable[[Turn], bool]
"""Whether a turn is penalised."""

LEFT: Final = "left its group: the episode failed"
NO_REWARD: Final = "left its group: the reward failed"
ALONE: Final = "alone in its group"
EQUAL: Final = "equal rewards in its group"
NO_SIGNAL: Final = "equal rewards in the whole batch"
_NOTHING = 1e-9  # a larger advantage is no rounding error


def _success(episode: Episode) -> float:
    return float(bool(episode.final and episode.final.success))


def _score(episode: Episode) -> float:
    score, success = (episode.final.score, episode.final.success) if episode.final else (0.0, False)
    if success and not score:
        raise RolloutError(
            f"episode {episode.id} succeeded with a score of 0: this environment gives no scores; "
            'set the method\'s reward = "success"'
        )
    return score / 100.0


def _unparsed(turn: Turn) -> bool:
    return turn.response is None or turn.response.action is None


def _unparsed_or_no_thought(turn: Turn) -> bool:
    text = turn.response.text if turn.response else ""
    return _unparsed(turn) or THINK not in text or END_THINK not in text


REWARDS: Mapping[str, Reward] = {"success": _success, "score": _score}
INVALID: Mapping[str, Invalid] = {
    "unparsed": _unparsed,
    "unparsed-or-no-thought": _unparsed_or_no_thought,
    "inadmissible": lambda turn: not turn.valid,
}


@dataclass(frozen=True)
class GroupRelative(Objective):
    """How much better a turn and its episode did than the others of their group."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    reward: Reward = _success
    scale: float = 10.0
    invalid: Invalid = _unparsed
    dynamic_sampling: bool = False
    compares = True

    def advantages(
        self, responses: Sequence[Scored], episodes: Sequence[Episode]
    ) -> Sequence[tuple[float, ...] | str]:
        by_turn = self.by_turn(episodes)
        found = [by_turn[one.episode, one.turn] for one in responses]
        if not any(isinstance(value, float) and abs(value) > _NOTHING for value in found):
            found = [value if isinstance(value, str) else NO_SIGNAL for value in found]
        return [
            value if isinstance(value, str) else tuple(value * kept for kept in one.response.mask)
            for one, value in zip(responses, found)
        ]

    def by_turn(self, episodes: Sequence[Episode]) -> dict[tuple[int, int], float | str]:
        """The advantage of each turn, or the reason why it has none, by place of the episode and number of the turn.

        The turn in which an episode failed is in no list of turns, but its response is there: it has a reason too.
        """
        rewards = [self._reward(episode) for episode in episodes]
        groups: dict[str, list[int]] = defaultdict(list)
        for place, episode in enumerate(episodes):
            if isinstance(rewards[place], float) and episode.turns:  # without turns there is nothing to compare
                groups[episode.task.id].append(place)
        found: dict[tuple[int, int], float | str] = {}
        steps: list[GroupStep] = []
        rows: list[tuple[int, int]] = []
        for place, episode in enumerate(episodes):
            reward = rewards[place]
            if isinstance(reward, float):
                reward = self._without_signal(groups[episode.task.id], rewards) or reward
            if isinstance(reward, str):
                found.update({(place, number): reward for number in range(1, len(episode.turns) + 2)})
                continue
            for turn in episode.turns:
                earned = reward if turn is episode.turns[-1] else 0.0
                valid = not self.invalid(turn)
                steps.append(GroupStep(episode.task.id, episode.id, turn.observation, earned, reward, valid))
                rows.append((place, turn.number))
        return {**found, **dict(zip(rows, group_advantages(steps, self.settings).joint))}

    def _reward(self, episode: Episode) -> float | str:
        """What the episode earned, or why it leaves its group."""
        if episode.error is not None:
            return LEFT
        try:
            reward = float(self.scale * self.reward(episode))
        except RolloutError:
            raise
        except Exception as error:  # somebody's own function may raise anything
            return f"{NO_REWARD} ({type(error).__name__})"
        return reward if math.isfinite(reward) else f"{NO_REWARD} (not finite)"

    def _without_signal(self, members: Sequence[int], rewards: Sequence[float | str]) -> str | None:
        if len(members) < 2:
            return ALONE
        return EQUAL if self.dynamic_sampling and len({rewards[place] for place in members}) == 1 else None

    def figures(self, samples: Sequence[TurnSample]) -> dict[str, float]:
        """The policy's entropy at sampled tokens, mean length of a response, and how many have an advantage."""
        logprobs = [
            logp for sample in samples for logp, kept in zip(sample.behaviour_logprobs, sample.mask) if kept
        ]
        return {
            "sampled_entropy": -fmean(logprobs),
            "response_tokens": fmean(len(sample.token_ids) for sample in samples),
            "with_signal": fmean(any(abs(a) > _NOTHING for a in sample.advantages) for sample in samples),
        }


@dataclass(frozen=True)
class DistillationAndReward(Objective):
    """A = distillation + weight x group-relative. A response without a group's advantage has distillation alone."""

    group: GroupRelative
    weight: float = 1.0
    needs_teacher = True
    compares = True

    def advantages(
        self, responses: Sequence[Scored], episodes: Sequence[Episode]
    ) -> Sequence[tuple[float, ...] | str]:
        by_turn = self.group.by_turn(episodes)
        found: list[tuple[float, ...] | str] = []
        for one, distilled in zip(responses, Distillation().advantages(responses, episodes)):
            value = by_turn[one.episode, one.turn]
            if isinstance(distilled, str) or isinstance(value, str):
                found.append(distilled)
                continue
            added = self.weight * value
            found.append(tuple(a + added * kept for a, kept in zip(distilled, one.response.mask)))
        return found

    def figures(self, samples: Sequence[TurnSample]) -> dict[str, float]:
        return self.group.figures(samples)
