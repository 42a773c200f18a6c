"""Where a token's advantage comes from.

An objective is one value of a method. When a rollout batch is complete, it turns the batch's full responses and
episodes into one advantage per token. Rollouts only ask it whether the teacher has to score responses, and the learner
sees nothing but the advantages: neither knows a teacher's log-prob from a reward.

`Distillation` is the paper's. Objectives that compare rewards find them in `Episode.final`, the tasks of a batch in
`Episode.task`, and what was seen and whether an action was valid in `Episode.turns`; a mixture adds up advantages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from actfirst.records import Alternatives, Episode, Response, TurnSample

NOT_SCORED = "not scored"
"""Why a response is no sample that the teacher failed to score."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A full response of a rollout batch. `episode` is the place of its episode in the batch; turns count from 1.

    `teacher_logprobs` has one log-prob per token. It is empty where nobody needs the teacher, and None where the
    teacher failed. `rank` orders the samples of a batch; equal ranks stay in the order of episodes and turns.
    `alternatives` are the teacher's, for whoever looks.
    """

    episode: int
    turn: int
    response: Response
    teacher_logprobs: tuple[float, ...] | None = ()
    rank: float = 0.0
    alternatives: Alternatives = field(default_factory=Alternatives)


class Objective(Protocol):
    """One objective. All functions are pure."""

    @property
    def needs_teacher(self) -> bool:
        """Whether the frozen teacher scores each response, from the moment it is complete."""
        return False

    @property
    def compares(self) -> bool:
        """Whether rollouts of the same task are compared. `rollout.group_size` must then be at least 2, and the
        responses must be those that acted: rewards say nothing of others."""
        return False

    def advantages(
        self, responses: Sequence[Scored], episodes: Sequence[Episode]
    ) -> Sequence[tuple[float, ...] | str]:
        """For each response of a batch one advantage per token, or the reason why it is no sample.

        Nobody reads the advantages of inserted tokens (mask 0).
        """
        ...

    def figures(self, samples: Sequence[TurnSample]) -> dict[str, float]:
        """What this objective says of the samples of one update, by the names that its metrics line has."""
        return {}

    def teacher_logprobs(self, sample: TurnSample) -> tuple[float, ...]:
        """What the teacher said of each token, as far as the sample tells; empty where it does not."""
        return sample.anchor_logprobs


@dataclass(frozen=True)
class Distillation(Objective):
    """On-policy distillation: A = log pi_teacher - log pi_behaviour (paper, appendix "OPD Optimization")."""

    needs_teacher = True

    def advantages(
        self, responses: Sequence[Scored], episodes: Sequence[Episode]
    ) -> Sequence[tuple[float, ...] | str]:
        return [
            NOT_SCORED
            if one.teacher_logprobs is None
            else tuple(
                teacher - behaviour if kept else 0.0
                for teacher, behaviour, kept in zip(
                    one.teacher_logprobs, one.response.logprobs, one.response.mask, strict=True
                )
            )
            for one in responses
        ]

    def figures(self, samples: Sequence[TurnSample]) -> dict[str, float]:
        """The sampled reverse KL: minus the mean advantage over supervised tokens."""
        kept = [a for sample in samples for a, kept in zip(sample.advantages, sample.mask) if kept]
        return {"reverse_kl": -sum(kept) / max(len(kept), 1)}

    def teacher_logprobs(self, sample: TurnSample) -> tuple[float, ...]:
        return tuple(own + more for own, more in zip(sample.behaviour_logprobs, sample.advantages, strict=True))
