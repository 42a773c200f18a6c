"""The ScienceWorld paragraph of the paper's appendix "Transition Consistency Checks", sentence by sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actfirst.environments.normalize import normalize
from actfirst.environments.rules import Carry, Reason, Transition
from actfirst.environments.scienceworld import rules as scienceworld_rules
from actfirst.records import Observation, ReferenceStep
from tests.support.kinds import RULES

rules = RULES["scienceworld"]

TEMPLATES = ("go OBJ", "look around", "pour OBJ in OBJ", "wait")
HALL = Observation(
    "You are in the hallway.", ("go kitchen", "look around", "wait"), TEMPLATES, ("kitchen", "air")
)
KITCHEN = Observation(
    "This room is called the kitchen. In it, you see: \n"
    "\ta counter. On the counter is: a bowl (containing a fig, a plum), a lamp, which is off, a drawer.\n"
    "\ta substance called air\n"
    "You also see:\n"
    "\tA door to the hallway (that is open)",
    ("go hallway", "open drawer", "wait"),
    TEMPLATES,
    ("bowl", "drawer", "fig", "lamp", "plum"),
)
REORDERED = (
    "This room is called the kitchen. In it, you see: \n"
    "\ta substance called air\n"
    "\ta counter. On the counter is: a drawer, a bowl (containing a plum, a fig), a lamp, which is off.\n"
    "You also see:\n"
    "\tA door to the hallway (that is open)"
)


def reason(after: Observation, expected: Observation, action: str = "go kitchen") -> Reason:
    transition = Transition(HALL, action, after, ReferenceStep("go kitchen", expected), "open drawer")
    return rules.check(transition, Carry()).reason


class TestValidity:
    """ "An action is valid if its normalized text appears in the current admissible-action list." """

    @pytest.mark.parametrize("action", ["go kitchen", "Go  KITCHEN", " wait\n"])
    def test_a_listed_action_is_valid_after_normalisation(self, action: str) -> None:
        assert rules.valid(action, HALL)

    def test_the_list_is_normalised_too(self) -> None:
        assert rules.valid("read the book", replace(HALL, admissible=("read  the Book",)))

    @pytest.mark.parametrize("action", ["go OBJ", "kitchen", "go to kitchen", "open drawer", "0", ""])
    def test_templates_objects_and_anything_unlisted_are_not(self, action: str) -> None:
        assert not rules.valid(action, HALL)

    def test_help_is_an_action_like_any_other(self) -> None:
        assert rules.valid("help", replace(HALL, admissible=("help",)))

    def test_an_invalid_action_ends_guidance_although_the_outcome_agrees(self) -> None:
        assert reason(KITCHEN, KITCHEN, action="go to kitchen") is Reason.INVALID_ACTION

    @pytest.mark.parametrize("count", [800, 1600])
    def test_each_listed_action_is_normalised_at_most_once(
        self, count: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str] = []
        monkeypatch.setattr(scienceworld_rules, "normalize", lambda text: seen.append(text) or normalize(text))
        many = replace(HALL, admissible=tuple(f"move thing {i} to place {i % 40}" for i in range(count)))
        assert rules.valid("move thing 7 to place 7", many)
        assert not seen
        assert not rules.valid("move nothing to nowhere", many)
        assert len(seen) == count + 1


class TestObservation:
    """ "We compare normalized next observations ..." with order removed; see test_text_normalization.py."""

    def test_the_order_of_lines_and_items_does_not_matter(self) -> None:
        assert reason(replace(KITCHEN, text=REORDERED), KITCHEN) is Reason.NONE

    def test_another_object_has_diverged(self) -> None:
        assert (
            reason(replace(KITCHEN, text=REORDERED.replace("a plum", "a pear")), KITCHEN) is Reason.OBSERVATION
        )

    def test_another_state_of_an_object_has_diverged(self) -> None:
        changed = REORDERED.replace("which is off", "which is on")
        assert reason(replace(KITCHEN, text=changed), KITCHEN) is Reason.OBSERVATION

    def test_the_action_need_not_be_the_reference_action(self) -> None:
        assert reason(KITCHEN, KITCHEN, action="wait") is Reason.NONE

    def test_terminal_observations_are_compared_too(self) -> None:
        ended = replace(KITCHEN, done=True)
        assert reason(ended, ended) is Reason.NONE
        assert reason(replace(ended, text="The lamp is on."), ended) is Reason.OBSERVATION


class TestTemplates:
    """ "... and action-template sets, including for terminal transitions", "with duplicates removed and order
    ignored." """

    @pytest.mark.parametrize("done", [False, True])
    @pytest.mark.parametrize("templates", [TEMPLATES[1:], (*TEMPLATES, "connect OBJ to OBJ")])
    def test_other_templates_have_diverged(self, templates: tuple[str, ...], done: bool) -> None:
        expected = replace(KITCHEN, done=done)
        assert reason(replace(expected, templates=templates), expected) is Reason.ACTIONS

    def test_case_spacing_order_and_repetition_do_not_matter(self) -> None:
        same = (*reversed(TEMPLATES), "GO  obj", "wait ")
        assert reason(replace(KITCHEN, templates=same), KITCHEN) is Reason.NONE


class TestWhatIsNotCompared:
    def test_possible_object_aliases(self) -> None:
        """ "Possible-object aliases are excluded from matching because their enumeration can vary" """
        assert reason(replace(KITCHEN, objects=("bowl 2", "fig 1")), KITCHEN) is Reason.NONE

    def test_the_full_admissible_list(self) -> None:
        """ "The full admissible-action list is used for action validation, not set equality" """
        assert reason(replace(KITCHEN, admissible=("wait",)), KITCHEN) is Reason.NONE

    def test_score_success_and_simulator_state(self) -> None:
        """ "separate room descriptions, inventory, reward, and score are not compared." """
        assert reason(replace(KITCHEN, score=40.0, success=True, state="s9"), KITCHEN) is Reason.NONE


def test_the_termination_flag_must_agree() -> None:
    assert reason(replace(KITCHEN, done=True), KITCHEN) is Reason.TERMINATION
    assert reason(KITCHEN, replace(KITCHEN, done=True)) is Reason.TERMINATION
