"""Unproductive repetition on constructed rollouts (paper, appendix "Rollout Quality")."""

from __future__ import annotations

from actfirst.lab.repetition import Step, exactly_valid, repetitions, share_with_repetition
from actfirst.records import Observation

FIRST = "You are in a room."
LOOK = Step("s0", "look", True, FIRST)


def move(state: str, action: str, after: str) -> Step:
    return Step(state, action, True, after)


class TestRepetition:
    def test_the_first_time_is_never_a_repetition(self) -> None:
        assert repetitions(FIRST, [LOOK]) == []

    def test_the_same_action_in_the_same_state_with_nothing_new_is_one(self) -> None:
        assert repetitions(FIRST, [LOOK, LOOK, LOOK]) == [2, 3]

    def test_walking_in_circles_repeats_from_the_second_round_on(self) -> None:
        there, back = move("s0", "go to desk", "You are at the desk."), move("s1", "go to bed", FIRST)
        # the first two bring or follow new text; the second round brings nothing new
        assert repetitions(FIRST, [there, back, there, back]) == [3, 4]

    def test_a_new_observation_in_between_makes_it_productive(self) -> None:
        peek = move("s0", "examine mug", "The mug is red.")
        assert repetitions(FIRST, [LOOK, peek, LOOK]) == []

    def test_only_news_since_the_most_recent_execution_counts(self) -> None:
        peek = move("s0", "examine mug", "The mug is red.")
        assert repetitions(FIRST, [LOOK, peek, LOOK, LOOK]) == [4]

    def test_an_observation_that_was_seen_before_is_no_news(self) -> None:
        again = move("s0", "inventory", FIRST)
        assert repetitions(FIRST, [LOOK, again, LOOK]) == [3]

    def test_what_the_first_execution_itself_brought_is_not_news_since(self) -> None:
        peek = move("s0", "examine mug", "The mug is red.")
        assert repetitions(FIRST, [peek, peek]) == [2]

    def test_a_repeated_action_that_brings_something_new_is_productive(self) -> None:
        waits = [move("s0", "wait", "One."), move("s0", "wait", "Two.")]
        assert repetitions(FIRST, waits) == []

    def test_the_same_action_in_another_state_is_another_pair(self) -> None:
        assert repetitions(FIRST, [LOOK, move("s1", "look", FIRST)]) == []

    def test_another_action_in_the_same_state_is_another_pair(self) -> None:
        assert repetitions(FIRST, [LOOK, move("s0", "inventory", FIRST)]) == []

    def test_invalid_actions_are_no_repetitions(self) -> None:
        wrong = Step("s0", "fly", False, "Nothing happens.")
        assert repetitions(FIRST, [wrong, wrong, wrong]) == []

    def test_an_earlier_invalid_attempt_does_not_make_a_repetition(self) -> None:
        assert repetitions(FIRST, [Step("s0", "look", False, FIRST), LOOK]) == []

    def test_the_feedback_of_an_invalid_attempt_is_an_observation(self) -> None:
        wrong = Step("s0", "fly", False, "Nothing happens.")
        assert repetitions(FIRST, [LOOK, wrong, LOOK, wrong, LOOK]) == [5]

    def test_texts_and_actions_are_compared_normalised(self) -> None:
        shouted = Step("s0", "  LOOK\n", True, "You  are in a ROOM.")
        assert repetitions(FIRST, [LOOK, shouted]) == [2]

    def test_where_states_are_not_known_nothing_can_be_said(self) -> None:
        assert repetitions(FIRST, [Step("", "look", True, FIRST)]) is None


class TestValidity:
    def test_surrounding_space_is_stripped_and_nothing_else(self) -> None:
        seen = Observation("x", admissible=("go to desk 1",))
        assert exactly_valid(" go to desk 1\n", seen)
        assert not exactly_valid("Go to desk 1", seen)
        assert not exactly_valid("", seen)


class TestShare:
    def test_it_counts_episodes_not_repetitions(self) -> None:
        assert share_with_repetition([[2, 3, 4], [], [7], []]) == 50.0

    def test_one_unknown_episode_makes_it_unknown(self) -> None:
        assert share_with_repetition([[2], None]) is None
        assert share_with_repetition([]) is None
