"""The latency profile of turns, on hand-made ones."""

from __future__ import annotations

import pytest

from actfirst.lab.latency import Spread, profile, profile_by_turn, reasoning_share, spread
from actfirst.lab.repetition import repetitions
from actfirst.runs.episode_lines import EpisodeLine, TurnLine
from tests.support.episode_lines import episode, response, turn

# 72 characters before the action field, 24 from it on
TEXT = "<think>" + "x" * 57 + "</think>" + "<action>look 1</action>."


def line(**fields: object) -> TurnLine:
    return TurnLine.model_validate(turn(1, **fields))


def test_reasoning_is_what_comes_before_the_action_field() -> None:
    assert reasoning_share(TEXT) == 0.75
    assert reasoning_share("<action>look</action>") == 0.0
    assert reasoning_share("thinking without end") == 1.0
    assert reasoning_share("") == 0.0


def test_percentiles_lie_between_neighbours() -> None:
    # 0, 10, ..., 100: the fifth percentile lies half-way between the first two
    assert spread([10.0 * value for value in range(11)]) == Spread(50.0, 5.0, 50.0, 95.0)
    assert spread([3.0]) == Spread(3.0, 3.0, 3.0, 3.0)


def test_a_profile_of_turns_with_and_without_reasoning() -> None:
    found = profile([line(seconds=1.0, response=response(TEXT, 96)), line(seconds=3.0)])
    assert found is not None
    assert (found.turns, found.reasoned, found.seconds.mean) == (2, 1, 2.0)
    assert found.reasoning is not None
    assert found.reasoning.mean == 75.0
    assert found.response_tokens == Spread(96.0, 96.0, 96.0, 96.0)


def test_turns_that_only_act_have_no_share_of_reasoning() -> None:
    found = profile([line()])
    assert found is not None
    assert (found.reasoning, found.response_tokens) == (None, None)
    assert profile([]) is None


def test_profiles_by_turn_number() -> None:
    episodes = [
        EpisodeLine.model_validate(episode([turn(1, 1.0), turn(2, 5.0)])),
        EpisodeLine.model_validate(episode([turn(1, 3.0)])),
    ]
    found = profile_by_turn(episodes)
    assert {number: one.turns for number, one in found.items()} == {1: 2, 2: 1}
    assert found[1].seconds.mean == pytest.approx(2.0)


class TestStepsOfAnEpisode:
    def test_what_a_turn_led_to_is_what_the_next_one_saw(self) -> None:
        line = EpisodeLine.model_validate(episode([turn(1), turn(2)]))
        first, steps = line.steps()
        assert first == "You see 1."
        assert [(step.state, step.after) for step in steps] == [("s1", "You see 2."), ("s2", "The end.")]

    def test_a_stored_episode_can_be_searched_for_repetitions(self) -> None:
        same = {"observation": "A room.", "action": "look", "state": "s"}
        line = EpisodeLine.model_validate(
            episode([turn(1, **same), turn(2, **same)], final_observation="A room.")
        )
        assert repetitions(*line.steps()) == [2]

    def test_an_episode_without_turns_has_no_steps(self) -> None:
        assert EpisodeLine.model_validate(episode([])).steps() == ("The end.", [])
