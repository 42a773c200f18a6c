"""How actions are read from outputs (paper, appendix "Thinking Budget")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actfirst.policy.parsing import Reached, extract_action, reached_by

TAGS = ["<think>", "</think>", "<action>", "</action>", "go", " ", "\n", "<action", "action>"]
outputs = st.lists(st.sampled_from(TAGS), max_size=12).map("".join)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<action>look</action>", "look"),
        ("<action>\n go to table 1 \n</action><|im_end|>", "go to table 1"),
        ("<think>cup?</think>\n\n<action>look</action>", "look"),
        ("<think>maybe <action>wrong</action></think><action>right</action>", "right"),
        ("<action>wrong</action></think><action>right</action>", "right"),
        ("<think>only <action>here</action></think> done", None),
        ("<think>never closed <action>look</action>", "look"),
        ("<think>a</think><action>first</action><action>second</action>", "first"),
        ("a</think>b</think><action>x</action></think><action>y</action>", "x"),
        ("<action><action>look</action>", "look"),
        ("<action>broken <action>look</action></action>", "look"),
        ("<action>click[a]\nb</action>", "click[a]\nb"),
        ("<action>a < b > c</action>", "a < b > c"),
        ("<action>look", None),
        ("look</action>", None),
        ("</action>look<action>", None),
        ("<Action>look</Action>", None),
        ("< action>look</ action>", None),
        ("<action></action>", None),
        ("<action>  \n</action><action>late</action>", None),
        ("", None),
    ],
)
def test_the_action_of_an_output(text: str, action: str | None) -> None:
    assert extract_action(text) == action


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("", Reached.REASONING),
        ("hmm", Reached.REASONING),
        ("<think>the tags are <action> and", Reached.REASONING),
        ("<think>such as <action>look</action> but", Reached.REASONING),
        ("<think>a</think>", Reached.REASONED),
        ("a</think>\n\nSo", Reached.REASONED),
        ("<think><action>x</action></think>", Reached.REASONED),
        ("<think>a</think><action>", Reached.ACTING),
        ("<think>a</think><action>look</acti", Reached.ACTING),
        ("<action>look", Reached.ACTING),
        ("<action>a<think>b", Reached.ACTING),
        ("<think>a</think><action>look</action>", Reached.ACTED),
        ("<think>a</think><action></action>", Reached.ACTED),
        ("<action>look</action> and <think> more", Reached.ACTED),
    ],
)
def test_how_far_an_output_has_come(text: str, reached: Reached) -> None:
    assert reached_by(text) is reached


@given(text=outputs)
def test_an_action_is_clean_or_none(text: str) -> None:
    action = extract_action(text)
    if action is not None:
        assert action == action.strip() != ""
        assert "<action>" not in action
        assert "</action>" not in action
        assert action in text


@given(text=outputs, more=outputs)
def test_more_text_never_undoes_a_finished_action_after_reasoning(text: str, more: str) -> None:
    if "</think>" in text and reached_by(text) is Reached.ACTED:
        assert reached_by(text + more) is Reached.ACTED
        assert extract_action(text + more) == extract_action(text)


def test_a_long_broken_output_is_read_to_its_end() -> None:
    """In quadratic time this would take hours: the timeout of the tests is the limit."""
    assert extract_action("<action>x" * 200_000) is None
