"""Text that is not ours: control tokens in it stay text.

Tokenizers read `<think>` anywhere, because it is an added token that is not special. In the paper's templates that is
wanted. In an observation it is not: it would open or close reasoning for the model. Rendering therefore passes every
value through `ControlTokens.mark`, which puts a noncharacter inside each control token. A marked piece of text is
tokenised here: added tokens are read where they are not marked, and everything else by a copy of the tokenizer that has
no added tokens. Special tokens (`<|im_end|>`) need no mark: no prompt text is searched for them at all.

Added tokens that spell ordinary words are no control tokens; the pocket models' tokenizer has such ones.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from actfirst.policy.chat_template import any_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MARK: Final = "\ufdd0"
"""A noncharacter, which Unicode keeps out of text. It is removed from values, and never reaches a tokenizer."""

_CONTROL = re.compile(r"[<\[{(|]\S+[>\]})|]")


class ControlTokens:
    """The added tokens of a tokenizer that are not special."""

    def __init__(self, core: Tokenizer) -> None:
        added = core.get_added_tokens_decoder().items()
        self._ids = {token.content: i for i, token in added if not token.special}
        self._core = core
        self._own = any_of(list(self._ids))
        rests: dict[str, list[str]] = {}
        for text in filter(_CONTROL.fullmatch, self._ids):
            rests.setdefault(text[0], []).append(text[1:])
        # The first character, then a look at the rest: so tokens are found that overlap, and text without any is
        # passed over at the speed of a search for one character.
        starts = [f"{re.escape(first)}(?={any_of(texts).pattern})" for first, texts in rests.items()]
        self._starts = re.compile("|".join(starts) or "(?!)")

    def mark(self, text: str) -> str:
        """The text with a mark inside each control token."""
        return self._starts.sub(rf"\g<0>{MARK}", text.replace(MARK, ""))

    def encode(self, text: str) -> list[int]:
        """The ids of text with marks."""
        ids: list[int] = []
        for place, part in enumerate(self._own.split(text)):
            if place % 2:
                ids.append(self._ids[part])
            else:
                ids += self._plain.encode(part.replace(MARK, ""), add_special_tokens=False).ids
        return ids

    @cached_property
    def _plain(self) -> Tokenizer:
        from tokenizers import Tokenizer

        return Tokenizer.from_str(json.dumps({**json.loads(self._core.to_str()), "added_tokens": []}))  # noqa: TID251  every character of a vocabulary counts
