"""GiGPO's advantages against values that the authors' own functions gave, and against numbers worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from actfirst.methods.group_relative import GroupSettings, GroupStep, group_advantages

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "gigpo" / "golden.json"


def steps(*trajectories: tuple[str, str, float]) -> list[GroupStep]:
    """Trajectories of one task: name, observations as letters, reward at the end (which is also the score)."""
    made: list[GroupStep] = []
    for name, observations, score in trajectories:
        for place, letter in enumerate(observations, start=1):
            reward = score if place == len(observations) else 0.0
            made.append(GroupStep("task", name, letter, reward, score))
    return made


@pytest.mark.skipif(not GOLDEN.exists(), reason="the golden values are not beside the repository")
def test_the_authors_values_to_five_digits() -> None:
    for case in json.loads(GOLDEN.read_text(encoding="utf-8")):
        given = [
            GroupStep(
                row["task"], row["trajectory"], row["observation"], row["reward"], row["episode_reward"], True
            )
            for row in case["steps"]
        ]
        for over, expected in (
            ("steps", case["episode_over_steps"]),
            ("trajectories", case["episode_over_trajectories"]),
        ):
            settings = GroupSettings(
                discount=case["gamma"],
                step_weight=case["step_weight"],
                normalisation=case["mode"],
                over=over,  # type: ignore[arg-type]
                similarity=case["similarity"],
                epsilon=case["epsilon"],
            )
            found = group_advantages(given, settings)
            assert found.returns == pytest.approx(case["returns"], abs=1e-5)
            assert list(found.anchors) == case["groups"]
            assert found.episode == pytest.approx(expected, abs=1e-5)
            assert found.step == pytest.approx(case["step"], abs=1e-5)
            if over == "steps":
                assert found.joint == pytest.approx(case["advantage_over_steps"], abs=1e-5)


def test_a_penalty_in_a_group_of_equal_rewards_stays_a_penalty() -> None:
    rows = steps(("a", "01", 10.0), ("b", "01", 10.0))
    rows[1] = replace(rows[1], valid=False)
    found = group_advantages(rows, GroupSettings(step_weight=0.0, over="trajectories"))
    assert found.joint == pytest.approx((0.0, -0.1, 0.0, 0.0))


def test_known_answers_of_two_trajectories() -> None:
    two = steps(("a", "012", 10.0), ("b", "01", 0.0))
    found = group_advantages(two, GroupSettings())
    assert found.joint == pytest.approx([1.4374, 1.4374, 0.7303, -1.8026, -1.8026], abs=1e-4)
    found = group_advantages(two, GroupSettings(normalisation="mean_norm"))
    assert found.joint == pytest.approx([8.5125, 8.75, 4.0, -10.5125, -10.75], abs=1e-4)


def test_an_observation_that_is_met_again_joins_its_first_visit() -> None:
    found = group_advantages(steps(("a", "0102", 10.0), ("b", "0", 0.0)), GroupSettings())
    assert found.joint == pytest.approx([0.9339, 0.4472, 1.1107, 0.4472, -2.9390], abs=1e-4)


def test_the_penalty_is_taken_from_the_invalid_row_alone() -> None:
    rows = steps(("a", "012", 10.0), ("b", "01", 0.0))
    rows[3] = GroupStep("task", "b", "0", 0.0, 0.0, valid=False)
    found = group_advantages(rows, GroupSettings())
    assert found.joint == pytest.approx([1.4374, 1.4374, 0.7303, -1.8116, -1.7934], abs=1e-4)


def test_without_step_weight_it_is_grpo() -> None:
    """Scores 1, 1, 0, 0 over trajectories: mean 0.5, deviation sqrt(1/3)."""
    rows = steps(("a", "01", 1.0), ("b", "0", 1.0), ("c", "012", 0.0), ("d", "0", 0.0))
    found = group_advantages(rows, GroupSettings(step_weight=0.0, over="trajectories"))
    up = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    assert found.joint == pytest.approx([up, up, up, -up, -up, -up, -up])


def test_a_group_of_one_trajectory_keeps_its_score_and_has_no_step_advantage() -> None:
    found = group_advantages(steps(("a", "01", 7.0)), GroupSettings(over="trajectories"))
    assert found.joint == pytest.approx((7.0, 7.0), abs=1e-5)  # divided by 1 + epsilon, as in the authors' code
    assert found.step == (0.0, 0.0)


@pytest.mark.parametrize("normalisation", ["mean_std_norm", "mean_norm"])
def test_equal_rewards_carry_no_signal_and_give_no_nan(normalisation: str) -> None:
    rows = steps(("a", "01", 10.0), ("b", "01", 10.0))
    found = group_advantages(rows, GroupSettings(normalisation=normalisation))  # type: ignore[arg-type]
    assert found.joint == (0.0,) * 4


def test_groups_of_different_tasks_do_not_mix() -> None:
    one = steps(("a", "01", 10.0), ("b", "01", 0.0))
    other = [GroupStep("other", s.trajectory, s.observation, s.reward, s.score) for s in one]
    alone = group_advantages(one, GroupSettings()).joint
    assert group_advantages([*one, *other], GroupSettings()).joint == alone + alone
