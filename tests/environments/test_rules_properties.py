"""Properties that all transition rules share (paper, appendix "Transition Consistency Checks")."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actfirst.environments.rules import Carry, Reason, Transition
from actfirst.records import Observation, Reference, ReferenceStep
from tests.support.kinds import RULES

SEARCH = ("search[<your query>]",)
PRODUCTS = ("b000000001", "b000000002", "b000000003")
CLICKS = tuple(f"click[{target}]" for target in ("next >", "< prev", "red", "buy now", *PRODUCTS))
COMMANDS = ("go to desk 1", "look", "open jar", "wait", "help")
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            ["You see a mug.", "On it is: b, a.", "You have clicked red.", "jar (containing b, a)", ""]
        ),
        max_size=5,
    ).map("\n".join),
)


ACTIONS = st.sampled_from([*CLICKS, *COMMANDS, "search[a mug]", "search[]", "nonsense"])
SEARCHES = st.sampled_from(["search[a mug]", "search[Red]"])


def observations(admissible: tuple[str, ...], *templates: tuple[str, ...]) -> st.SearchStrategy[Observation]:
    return st.builds(
        Observation,
        text=TEXTS,
        admissible=st.lists(st.sampled_from(admissible), min_size=1, unique=True).map(tuple),
        templates=st.sampled_from(templates),
        objects=st.sampled_from([(), ("jar", "desk")]),
        done=st.booleans(),
        score=st.sampled_from([0.0, 40.0]),
        state=st.sampled_from(["", "s1"]),
    )


# Observations in the shape in which each benchmark presents them.
OBSERVATIONS = {
    "alfworld": observations(COMMANDS, ()),
    "scienceworld": observations(COMMANDS, (), ("go OBJ", "wait")),
    "webshop": observations(CLICKS, (), SEARCH),
}


@st.composite
def transitions(draw: st.DrawFn, name: str) -> Transition:
    """Any turn whatever: the executed side and the reference side are unrelated, the action often invalid.
    Half of them are two searches, so that WebShop's exception is met often."""
    actions = draw(st.sampled_from([ACTIONS, SEARCHES]))
    before, after, expected = (draw(OBSERVATIONS[name]) for _ in range(3))
    following = draw(st.none() | ACTIONS)
    return Transition(before, draw(actions), after, ReferenceStep(draw(actions), expected), following)


@st.composite
def references(draw: st.DrawFn, name: str) -> Reference:
    """A reference of valid actions, such as a replay in the environment would have accepted."""
    current = initial = draw(OBSERVATIONS[name])
    steps: list[ReferenceStep] = []
    for _ in range(draw(st.integers(1, 4))):
        options = [*current.admissible, "search[red mug]"]
        valid = [action for action in options if RULES[name].valid(action, current)]
        if not valid:
            break
        current = draw(OBSERVATIONS[name])
        steps.append(ReferenceStep(draw(st.sampled_from(valid)), current))
    assume(steps)
    return Reference("task", initial, tuple(steps), "test", 100.0)


# No deadline: the machine may be busy, and speed has tests of its own.
quick = settings(max_examples=40, deadline=None)
names = pytest.mark.parametrize("name", sorted(RULES))
carries = st.sampled_from([Carry(), Carry("b000000001")])


def test_every_benchmark_has_rules() -> None:
    assert sorted(RULES) == ["alfworld", "scienceworld", "webshop"]


@names
@quick
@given(data=st.data())
def test_a_reference_followed_by_its_own_actions_stays_aligned(name: str, data: st.DataObject) -> None:
    reference = data.draw(references(name))
    before, carry = reference.initial, Carry()
    for number, step in enumerate(reference.steps):
        following = reference.steps[number + 1].action if number + 1 < len(reference.steps) else None
        result = RULES[name].check(Transition(before, step.action, step.observation, step, following), carry)
        assert result.aligned
        assert result.carry == Carry()
        before, carry = step.observation, result.carry


@names
@quick
@given(data=st.data())
def test_a_different_termination_flag_always_diverges(name: str, data: st.DataObject) -> None:
    turn = data.draw(transitions(name))
    flipped = replace(turn, after=replace(turn.after, done=not turn.reference.observation.done))
    assert not RULES[name].check(flipped, data.draw(carries)).aligned
    agreeing = replace(turn.reference.observation, done=not turn.reference.observation.done)
    assert RULES[name].compare(agreeing, turn.reference.observation) is Reason.TERMINATION


@names
@quick
@given(data=st.data())
def test_an_invalid_action_always_diverges(name: str, data: st.DataObject) -> None:
    turn = data.draw(transitions(name))
    perfect = replace(turn, action="no such action", after=turn.reference.observation)
    assert RULES[name].check(perfect, Carry()).reason is Reason.INVALID_ACTION


@names
@quick
@given(data=st.data())
def test_only_a_pardoned_search_carries_anything(name: str, data: st.DataObject) -> None:
    """Whatever comes in and however the turn ends, nothing goes out unless WebShop's search rule was used."""
    turn = data.draw(transitions(name))
    result = RULES[name].check(turn, data.draw(carries))
    if result.carry != Carry():
        assert name == "webshop"
        assert result.aligned
        assert turn.action.startswith("search[")
        assert turn.reference.action.startswith("search[")
        assert not turn.after.done
        assert f"click[{result.carry.product}]" in turn.after.admissible
        assert turn.reference_next_action == f"click[{result.carry.product}]"


@names
@quick
@given(data=st.data())
def test_the_verdict_does_not_depend_on_what_is_not_observable(name: str, data: st.DataObject) -> None:
    """ "They use observable representations rather than simulator-state equality." """
    turn, carry = data.draw(transitions(name)), data.draw(carries)
    hidden = replace(turn.after, score=3.0, success=True, state="elsewhere", objects=("other",))
    assert RULES[name].check(replace(turn, after=hidden), carry) == RULES[name].check(turn, carry)


@names
@quick
@given(data=st.data())
def test_comparison_is_reflexive_and_symmetric(name: str, data: st.DataObject) -> None:
    one, two = data.draw(OBSERVATIONS[name]), data.draw(OBSERVATIONS[name])
    assert RULES[name].compare(one, one) is Reason.NONE
    assert RULES[name].compare(one, two) is RULES[name].compare(two, one)


@names
@quick
@given(data=st.data())
def test_case_spacing_and_line_endings_of_what_was_seen_do_not_matter(name: str, data: st.DataObject) -> None:
    turn = data.draw(transitions(name))
    ascii_text = turn.after.text.encode("ascii", "ignore").decode()
    plain = replace(turn, after=replace(turn.after, text=ascii_text))
    dressed = replace(
        turn, after=replace(turn.after, text="\r\n" + ascii_text.upper().replace("\n", " \r\n\t"))
    )
    assert RULES[name].check(dressed, Carry()) == RULES[name].check(plain, Carry())
