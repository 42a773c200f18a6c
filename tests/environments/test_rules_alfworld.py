"""The ALFWorld paragraph of the paper's appendix "Transition Consistency Checks", sentence by sentence."""

from __future__ import annotations

from dataclasses import replace

from actfirst.environments.rules import Carry, Reason, Transition
from actfirst.records import Observation, ReferenceStep
from tests.support.kinds import RULES

rules = RULES["alfworld"]

HALL = Observation("You are in the middle of a room.", ("go to desk 1", "look", "inventory", "help"))
DESK = Observation(
    "You arrive at desk 1. On the desk 1, you see a pen 2, and a mug 1.",
    ("take pen 2 from desk 1", "take mug 1 from desk 1", "go to shelf 1", "look", "help"),
)
WON = Observation("You put the mug 1 in the desk 1.", ("look",), done=True, success=True)


def turn(
    action: str, after: Observation, expected: Observation, reference_action: str = "go to desk 1"
) -> Transition:
    return Transition(HALL, action, after, ReferenceStep(reference_action, expected), "take mug 1 from desk 1")


def reason(transition: Transition) -> Reason:
    result = rules.check(transition, Carry())
    assert result.aligned == (result.reason == "")
    return result.reason


class TestValidity:
    """ "An action is valid if its normalized text belongs to the current admissible-action set, excluding
    help." """

    def test_an_admissible_action_is_valid(self) -> None:
        assert rules.valid("go to desk 1", HALL)

    def test_texts_are_normalised_on_both_sides(self) -> None:
        assert rules.valid("  GO  to\tdesk 1\n", HALL)
        assert rules.valid("go to desk 1", replace(HALL, admissible=("Go to  Desk 1",)))

    def test_help_is_not_valid_even_when_listed(self) -> None:
        assert not rules.valid("help", HALL)
        assert not rules.valid("HELP ", HALL)

    def test_anything_else_is_not_valid(self) -> None:
        assert not rules.valid("go to desk 2", HALL)
        assert not rules.valid("go to desk", HALL)
        assert not rules.valid("", HALL)

    def test_an_invalid_action_ends_guidance_although_the_outcome_agrees(self) -> None:
        assert reason(turn("dance", DESK, DESK)) is Reason.INVALID_ACTION


class TestObservation:
    """ "We require the normalized next observation o_{t+1} to equal o_{t+1}^ref." """

    def test_equal_observations_are_aligned(self) -> None:
        assert reason(turn("go to desk 1", DESK, DESK)) is Reason.NONE

    def test_case_and_spacing_do_not_matter(self) -> None:
        shouted = replace(
            DESK, text="\r\n YOU arrive at desk 1.   On the desk 1, you see a pen 2, and a mug 1.\r\n"
        )
        assert reason(turn("go to desk 1", shouted, DESK)) is Reason.NONE

    def test_the_order_of_objects_does_matter(self) -> None:
        swapped = replace(DESK, text="You arrive at desk 1. On the desk 1, you see a mug 1, and a pen 2.")
        assert reason(turn("go to desk 1", swapped, DESK)) is Reason.OBSERVATION

    def test_line_order_matters(self) -> None:
        one, two = replace(DESK, text="a\nb"), replace(DESK, text="b\na")
        assert reason(turn("go to desk 1", one, two)) is Reason.OBSERVATION

    def test_the_action_need_not_be_the_reference_action(self) -> None:
        """ "The generated action need not equal the reference action." """
        assert reason(turn("look", DESK, DESK, reference_action="go to desk 1")) is Reason.NONE

    def test_the_same_action_with_another_outcome_has_diverged(self) -> None:
        nothing = replace(HALL, text="Nothing happens.")
        assert reason(turn("go to desk 1", nothing, DESK)) is Reason.OBSERVATION


class TestAdmissibleActions:
    """ "For nonterminal transitions, the next admissible-action sets must also match after text normalization
    and deduplication; this comparison is omitted for terminal transitions." """

    def test_a_missing_action_has_diverged(self) -> None:
        assert reason(turn("look", replace(DESK, admissible=DESK.admissible[1:]), DESK)) is Reason.ACTIONS

    def test_an_additional_action_has_diverged(self) -> None:
        assert reason(turn("look", replace(DESK, admissible=(*DESK.admissible, "sit")), DESK)) is Reason.ACTIONS

    def test_order_repetition_case_and_spacing_do_not_matter(self) -> None:
        listed = (*reversed(DESK.admissible), "LOOK", " go  to shelf 1 ")
        assert reason(turn("look", replace(DESK, admissible=listed), DESK)) is Reason.NONE

    def test_help_is_not_compared(self) -> None:
        without = tuple(action for action in DESK.admissible if action != "help")
        assert reason(turn("look", replace(DESK, admissible=without), DESK)) is Reason.NONE

    def test_terminal_transitions_compare_no_actions(self) -> None:
        assert reason(turn("look", replace(WON, admissible=("go to sofa 1",)), WON)) is Reason.NONE

    def test_terminal_transitions_still_compare_observations(self) -> None:
        assert (
            reason(turn("look", replace(WON, text="You put the pen 2 in the desk 1."), WON))
            is Reason.OBSERVATION
        )


def test_the_termination_flag_must_agree() -> None:
    """ "Retaining reference guidance requires ... agreement of the environment's termination flag" """
    assert reason(turn("look", replace(WON, done=False), WON)) is Reason.TERMINATION
    assert reason(turn("look", replace(DESK, done=True), DESK)) is Reason.TERMINATION


def test_simulator_state_score_and_success_are_not_compared() -> None:
    """ "They use observable representations rather than simulator-state equality." """
    other = replace(DESK, state="facts-7", score=50.0, success=True)
    assert reason(turn("look", other, DESK)) is Reason.NONE
