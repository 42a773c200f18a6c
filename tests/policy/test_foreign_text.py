"""Control tokens in text that is not ours are text (tokens of the chat template's own text are not touched)."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import AutoTokenizer

from actfirst.models.folder import resolve_model
from actfirst.policy.foreign_text import MARK, ControlTokens
from actfirst.policy.history import fit
from actfirst.policy.render import TemplateSet
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, Observation, TurnContext
from tests.policy.contexts import REFERENCE, contexts, texts
from tests.policy.tokenizers import BYTE_LEVEL, tokenizer
from tests.support.kinds import GROWING_SETS, TEMPLATE_SETS

FAMILIES = st.sampled_from(BYTE_LEVEL)


@cache
def encoder(family: str) -> PromptEncoder:
    return PromptEncoder(tokenizer(family))


@settings(max_examples=150, deadline=None)
@given(
    family=FAMILIES,
    templates=st.sampled_from([*TEMPLATE_SETS.values(), *GROWING_SETS.values()]),
    mode=st.sampled_from(list(Mode)),
    context=contexts(),
)
def test_values_add_no_think_token_and_the_text_survives(
    family: str, templates: TemplateSet, mode: Mode, context: TurnContext
) -> None:
    reference = REFERENCE if mode is Mode.INVERSE_DYNAMICS else None
    prompt = fit(encoder(family), templates, mode, context, 10**9, reference)
    empty = fit(
        encoder(family),
        templates,
        mode,
        TurnContext("", (), Observation("", ()), 1),
        10**9,
        reference,
    )
    for tag in ("<think>", "</think>", "<|im_start|>", "<|im_end|>"):
        own = tokenizer(family).convert_tokens_to_ids(tag)
        assert prompt.ids.count(own) == empty.ids.count(own)
    made = encoder(family)
    assert made.decode(prompt.ids) == made.decode(made.encode(prompt.text))


@settings(max_examples=150)
@given(family=FAMILIES, text=texts)
def test_text_without_control_tokens_is_left_as_it_is(family: str, text: str) -> None:
    clean = text.replace("think>", "").replace(MARK, "")
    assert encoder(family).mark(clean) == clean
    assert encoder(family).mark(text).replace(MARK, "") == text.replace(MARK, "")


def test_a_mark_in_a_value_cannot_undo_or_forge_anything() -> None:
    made = encoder("qwen")
    assert made.mark(f"<{MARK}think>") == made.mark("<think>")
    assert made.encode(made.mark(f"a{MARK}b")) == made.encode("ab")


def test_overlapping_tokens_are_all_marked() -> None:
    core = tokenizer("qwen").backend_tokenizer.__class__.from_str(tokenizer("qwen").backend_tokenizer.to_str())
    core.add_tokens([AddedToken(text, special=False) for text in ("<a>", "<a><b>", "<<a>")])
    controls = ControlTokens(core)
    ids = controls.encode(controls.mark("<<a><b>"))
    assert core.decode(ids) == "<<a><b>"
    assert not set(ids) & {core.token_to_id(text) for text in ("<a>", "<a><b>", "<<a>")}


def test_our_own_tokens_beside_marked_ones_are_still_read() -> None:
    made, end = encoder("qwen"), tokenizer("qwen").convert_tokens_to_ids("</think>")
    assert made.encode(made.mark("said </think>") + " use </think>").count(end) == 1


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<action>", "</action>"])
def test_added_tokens_that_spell_words_are_no_control_tokens(tag: str) -> None:
    """The pocket models' tokenizer has whole phrases of observations as tokens; prompts keep them."""
    of = AutoTokenizer.from_pretrained(str(resolve_model("pocket:student", "models.student")))
    made = PromptEncoder(of)
    phrase = of.convert_tokens_to_ids("You arrive at")
    assert made.mark("You arrive at table 1.") == "You arrive at table 1."
    ids = made.encode(made.mark(f"You arrive at {tag}."))
    assert phrase in ids
    assert of.convert_tokens_to_ids(tag) not in ids
