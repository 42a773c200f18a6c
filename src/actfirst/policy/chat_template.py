"""What a model's chat template puts around a user message, and how a prompt ends.

A full response thinks: its prompt ends as the template ends with thinking enabled. A fast action does not (paper,
"Thinking Budget": "a separate action-only decoding path"): its prompt ends as the template ends with thinking disabled.
Qwen3's template then closes an empty think block. A template that knows no such switch ends both alike, and one that
always opens the reasoning has it closed here. Endings stand behind the message, so all before them is shared.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from actfirst.errors import ConfigError
from actfirst.policy.parsing import ACTION, END_THINK, THINK

if TYPE_CHECKING:
    from actfirst.models.tokenizer import ChatTokenizer

_SENTINEL = "actfirst-sentinel-of-the-user-message"

ODD_TEXTS = (
    "one line",
    "a {brace} and {{ two }} and {% raw %}",
    "first\nsecond\n\nthird\n \nfourth \n  fifth\r\nsixth\n\tseventh\n\n\n[eighth]",
    "numbers 1\n2\n33\n444\n5555\n'quoted', it's\n's\n...\n!?\n(x)\n-\n_",
    "caf\u00e9 cafe\u0301\n\u0301\n\u4f60\u597d\n\U0001f600\n\u00a0x\n\u200bx\ny\u3000\nz\x85\nw\x1f\nv",
    "<tool_response>\ntext\n</tool_response>",
)


class Ending(StrEnum):
    """How a prompt ends. The values are those of `generation.fast_reasoning`; full responses always use OPEN."""

    OPEN = "none"  # the model may reason
    CLOSED = "closed"  # the reasoning is over before it began
    PREFILLED = "prefill"  # and the action field is open

    @property
    def prefill(self) -> str:
        """The beginning of the answer that the prompt holds already."""
        return ACTION if self is Ending.PREFILLED else ""


def conversation(tokenizer: ChatTokenizer, text: str, ending: Ending) -> str:
    """The whole prompt of one user message as text."""
    prompt: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=ending is Ending.OPEN,
    )
    if ending is not Ending.OPEN and opens_reasoning(prompt):
        prompt = f"{prompt.rstrip()}\n\n{END_THINK}\n\n"
    return prompt + ending.prefill


def opens_reasoning(prompt: str) -> bool:
    """Whether what follows the prompt is reasoning already."""
    return prompt.rstrip().endswith(THINK)


def around_user_text(tokenizer: ChatTokenizer, ending: Ending) -> tuple[str, str]:
    """What stands before and after the user message, proven not to depend on it."""
    if not tokenizer.chat_template:
        raise ConfigError(
            f"{tokenizer.name_or_path}: the tokenizer has no chat template; use an instruct model"
        )
    around = conversation(tokenizer, _SENTINEL, ending).split(_SENTINEL)
    if len(around) != 2:
        raise ConfigError(
            f"{tokenizer.name_or_path}: the chat template shows the user message {len(around) - 1} times,"
            " prompts need it exactly once"
        )
    prefix, suffix = around
    for text in ODD_TEXTS:
        if conversation(tokenizer, text.strip(), ending) != prefix + text.strip() + suffix:
            raise ConfigError(
                f"{tokenizer.name_or_path}: the chat template changes the user message (at {text[:40]!r});"
                " use a chat template that shows it as it is"
            )
    return prefix, suffix


def special_pattern(tokenizer: ChatTokenizer) -> re.Pattern[str]:
    """Finds the tokenizer's special tokens."""
    return any_of([token.content for token in tokenizer.added_tokens_decoder.values() if token.special])


def any_of(texts: list[str]) -> re.Pattern[str]:
    """Finds the leftmost of the texts, and the longest where several begin; one group, the text."""
    return re.compile(f"({'|'.join(map(re.escape, sorted(texts, key=len, reverse=True))) or '(?!)'})")
