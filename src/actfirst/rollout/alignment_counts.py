"""Reference alignment of rollouts as counts that add up over batches (paper, "Reference Alignment During Training")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass

from actfirst.records import Episode, Verdict


@dataclass(frozen=True, slots=True)
class AlignmentCounts:
    """Rollouts with reference guidance, and how far each followed it; `turns` counts all executed turns."""

    guided: int = 0
    first_aligned: int = 0
    fully_aligned: int = 0
    aligned_turns: int = 0
    turns: int = 0

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(*map(sum, zip(astuple(self), astuple(other))))

    def rates(self) -> dict[str, float]:
        """First-action and full-trajectory alignment and turn coverage in percent; empty without guidance."""
        if not self.guided or not self.turns:
            return {}
        return {
            "first_action": 100.0 * self.first_aligned / self.guided,
            "full_trajectory": 100.0 * self.fully_aligned / self.guided,
            "turn_coverage": 100.0 * self.aligned_turns / self.turns,
        }

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def count_alignment(episodes: Iterable[Episode]) -> AlignmentCounts:
    """Sum over rollouts; unguided ones add nothing."""
    return sum((_of(episode) for episode in episodes if episode.guided), AlignmentCounts())


def _of(episode: Episode) -> AlignmentCounts:
    aligned = [turn.verdict is Verdict.ALIGNED for turn in episode.turns]
    complete = (
        bool(aligned)
        and all(aligned)
        and len(aligned) == episode.reference_length
        and episode.final is not None
        and episode.final.done
    )
    return AlignmentCounts(1, int(bool(aligned) and aligned[0]), int(complete), sum(aligned), len(aligned))
