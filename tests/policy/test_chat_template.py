"""How prompts end (paper, "Thinking Budget"): full responses may reason, fast actions may not."""

from __future__ import annotations

import copy

import pytest
from transformers import PreTrainedTokenizerFast

from actfirst.policy.chat_template import Ending
from actfirst.policy.tokens import PromptEncoder
from tests.policy.tokenizers import BYTE_LEVEL, tokenizer

BEFORE = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
CLOSED = "<think>\n\n</think>\n\n"


def speaking(template: str) -> PreTrainedTokenizerFast:
    changed = copy.deepcopy(tokenizer("qwen"))
    changed.chat_template = "{{ '<|im_start|>user\n' + messages[0]['content'] + '<|im_end|>\n" + template
    return changed


def prompts(of: PreTrainedTokenizerFast) -> dict[Ending, str]:
    made = PromptEncoder(of)
    return {ending: made.decode(made.encode("hello", ending)) for ending in Ending}


def test_a_template_that_knows_thinking_closes_an_empty_block() -> None:
    assert prompts(tokenizer("qwen")) == {
        Ending.OPEN: BEFORE,
        Ending.CLOSED: BEFORE + CLOSED,
        Ending.PREFILLED: f"{BEFORE}{CLOSED}<action>",
    }


def test_a_template_that_knows_no_thinking_ends_as_ever() -> None:
    plain = prompts(speaking("<|im_start|>assistant\n' }}"))
    assert plain == {Ending.OPEN: BEFORE, Ending.CLOSED: BEFORE, Ending.PREFILLED: f"{BEFORE}<action>"}


@pytest.mark.parametrize("opening", ["<think>", "<think>\n"])
def test_reasoning_that_a_template_always_opens_is_closed(opening: str) -> None:
    made = prompts(speaking(f"<|im_start|>assistant\n{opening}' }}}}"))
    assert made[Ending.OPEN] == BEFORE + opening
    assert made[Ending.CLOSED] == BEFORE + CLOSED


@pytest.mark.parametrize("family", BYTE_LEVEL)
def test_the_closed_prompt_has_the_ids_of_the_template_without_thinking(family: str) -> None:
    of = tokenizer(family)
    text = "You see a cup.\nUse <think> </think> tags."
    message = [{"role": "user", "content": text}]
    theirs = of.apply_chat_template(
        message, add_generation_prompt=True, enable_thinking=False, return_dict=True
    )
    assert PromptEncoder(of).encode(text, Ending.CLOSED) == list(theirs["input_ids"])


def test_prompts_of_one_message_differ_at_the_end_alone() -> None:
    made = PromptEncoder(tokenizer("qwen"))
    open_, closed, prefilled = (made.encode("hello", ending) for ending in Ending)
    assert closed[: len(open_)] == open_
    assert prefilled[: len(closed)] == closed
