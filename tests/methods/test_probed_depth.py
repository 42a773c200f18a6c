"""Depth by probes, on hand-made samples whose KL per turn is known."""

from __future__ import annotations

import pytest

from actfirst.methods.acting import Probe, TrainingPoint
from actfirst.methods.depth import ProbedDepth, turn_utilities, useful_depth
from actfirst.records import TurnSample

RULE = ProbedDepth(probe_every=10, share=0.9, smoothing=0.5, least=2, epsilon=0.5)


def sample(turn: int, kl: float, *, inserted: float = 0.0) -> TurnSample:
    """A response of two generated tokens whose mean KL is `kl`, and an inserted one that must not count."""
    return TurnSample(
        id=f"t{turn}-{kl}",
        episode_id="e",
        task_id="task",
        turn=turn,
        prompt_ids=(1,),
        token_ids=(1, 2, 3),
        mask=(1, 1, 0),
        behaviour_logprobs=(-1.0, -1.0, 0.0),
        advantages=(-kl - 0.25, -kl + 0.25, inserted),
        version=0,
    )


# Turn 1: 1.0 and 2.0 (mean 1.5, deviation 0.5); turn 2: 1.0 and 1.0; turn 3: a KL below 0; turn 4: one survivor.
PROBE = [
    *(sample(1, kl) for kl in (1.0, 2.0, 1.0, 2.0)),
    *(sample(2, kl) for kl in (1.0, 1.0)),
    *(sample(3, kl) for kl in (-1.0, -0.5)),
    sample(4, 5.0),
]


class TestUtility:
    def test_survival_times_mean_over_deviation(self) -> None:
        # 4/4 * 1.5 / (0.5 + 0.5) = 1.5;  2/4 * 1.0 / (0 + 0.5) = 1.0;  max(mean, 0) = 0;  one survivor: 0
        assert turn_utilities(PROBE, 0.5) == pytest.approx([1.5, 1.0, 0.0, 0.0])

    def test_inserted_tokens_do_not_count(self) -> None:
        plain = turn_utilities([sample(1, 1.0), sample(1, 2.0)], 0.5)
        assert turn_utilities([sample(1, 1.0, inserted=50.0), sample(1, 2.0)], 0.5) == plain

    @pytest.mark.parametrize(("share", "depth"), [(0.5, 1), (0.6, 1), (0.61, 2), (0.9, 2), (1.0, 3)])
    def test_the_depth_holds_a_share_of_all_utility(self, share: float, depth: int) -> None:
        # cumulative: 1.5 (60 %), 2.4 (96 %), 2.5 (100 %)
        assert useful_depth([1.5, 0.9, 0.1], share) == depth

    def test_without_any_utility_there_is_no_depth(self) -> None:
        assert useful_depth([0.0, 0.0], 0.9) is None


class TestRule:
    def test_the_first_batch_is_a_probe_at_full_depth(self) -> None:
        assert RULE.limit(30, TrainingPoint()) == 30
        assert RULE.learn(30, TrainingPoint(), PROBE) == Probe(update=0, depth=2.0)

    def test_between_probes_rollouts_end_at_the_depth_found_and_nothing_is_learnt(self) -> None:
        progress = TrainingPoint(batch=3, update=9, probe=Probe(0, 6.5))
        assert RULE.limit(30, progress) == 7
        assert RULE.learn(30, progress, PROBE) == Probe(0, 6.5)

    def test_ten_updates_later_comes_the_next_probe_and_depths_are_smoothed(self) -> None:
        progress = TrainingPoint(batch=4, update=10, probe=Probe(0, 7.0))
        assert RULE.limit(30, progress) == 30
        assert RULE.learn(30, progress, PROBE) == Probe(10, 0.5 * 2 + 0.5 * 7)

    def test_the_depth_stays_between_the_least_and_the_turn_limit(self) -> None:
        careful = ProbedDepth(10, 0.9, 0.5, least=5, epsilon=0.5)
        assert careful.learn(30, TrainingPoint(), PROBE) == Probe(0, 5.0)
        assert careful.limit(4, TrainingPoint(update=1, probe=Probe(0, 5.0))) == 4

    def test_a_probe_that_shows_nothing_keeps_the_full_depth(self) -> None:
        assert RULE.learn(30, TrainingPoint(), [sample(1, -1.0), sample(1, -2.0)]) == Probe(0, 30.0)

    def test_a_probe_without_samples_is_made_again(self) -> None:
        assert RULE.learn(30, TrainingPoint(), []) is None
