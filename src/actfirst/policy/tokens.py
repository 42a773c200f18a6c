"""Turns a rendered user message into prompt ids, paying only for text that is new.

Counting happens after the chat template (paper, appendix "History Management"), so every turn would tokenise
the whole history again. Byte-level BPE never merges across its pre-tokeniser's boundaries, and a single
newline between two non-blank characters is such a boundary for the GPT-2, Llama-3 and Qwen families. The
text is cut there, each piece is tokenised once and its ids are kept. Cutting at longer runs of newlines would
be wrong for GPT-2. Start-up compares both ways on probe texts; a tokenizer for which they differ is used
without cutting.

Special tokens are read in what the chat template adds and nowhere else: an observation that contains
`<|im_end|>` is plain text and cannot end the message. Added tokens that are not special (Qwen3's `<think>`)
are read everywhere, as the tokenizer defines them; the paper's templates mention them on purpose.

This module does not decide what a prompt holds. An encoder serves one thread.
"""

from __future__ import annotations

import logging
import re
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.environments.registry import built_in_kinds
from actfirst.errors import ConfigError
from actfirst.policy.render import read_templates

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

_LOG = logging.getLogger(__name__)
_CUT = re.compile(r"(?<=\S\n)(?=\S)")
_NEXT_LINE = re.compile(r"\n\S")
_NEAR, _SAMPLE = 24, "[Observation 1: 'You see'"  # how a pair begins, and how much before it may matter
_MOST_BLOCKS = 50_000
_SENTINEL = "actfirst-sentinel-of-the-user-message"

_ODD_TEXTS = (
    "one line",
    "a {brace} and {{ two }} and {% raw %}",
    "first\nsecond\n\nthird\n \nfourth \n  fifth\r\nsixth\n\tseventh\n\n\n[eighth]",
    "numbers 1\n2\n33\n444\n5555\n'quoted', it's\n's\n...\n!?\n(x)\n-\n_",
    "caf\u00e9 cafe\u0301\n\u0301\n\u4f60\u597d\n\U0001f600\n\u00a0x\n\u200bx\ny\u3000\nz\x85\nw\x1f\nv",
    "<tool_response>\ntext\n</tool_response>",
)


class PromptEncoder:
    """Chat template and tokenizer of one model, for requests of a single user message with thinking on.

    `characters_tokenised` counts the characters that went through the tokenizer since construction.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, cache_characters: int = 8_000_000) -> None:
        if not tokenizer.is_fast:
            raise ConfigError(f"{tokenizer.name_or_path}: prompts need a fast tokenizer (tokenizer.json)")
        self._tokenizer = tokenizer
        self._core = _private_copy(tokenizer)
        self.end_id: int | None = tokenizer.eos_token_id
        self._cache: OrderedDict[str, array[int]] = OrderedDict()
        self._blocks: dict[str, tuple[array[int], ...]] = {}
        self._endings: dict[str, bool] = {}
        self._cache_limit = cache_characters
        self._cached_characters = 0
        self.prefix, self.suffix = _around_user_text(tokenizer)
        # The message is tokenised together with the plain text that touches it in the chat template; from the
        # nearest special token outwards the template's ids are constants.
        opening = _last_special_end(tokenizer, self.prefix)
        closing = _first_special_start(tokenizer, self.suffix)
        self._opening_ids = self.encode_markup(self.prefix[:opening])
        self._closing_ids = self.encode_markup(self.suffix[closing:])
        self._lead, self._trail = self.prefix[opening:], self.suffix[:closing]
        self.characters_tokenised = 0
        self.piecewise = False
        self._prove_equal_to_chat_template()
        self.piecewise = self._pieces_equal_whole()
        if not self.piecewise:
            _LOG.warning(
                "%s: cutting text at newlines changes its tokens; prompts are tokenised whole, which is slower",
                tokenizer.name_or_path,
            )
        self.characters_tokenised = 0

    def encode(self, text: str) -> list[int]:
        """The ids of the whole prompt. Blanks around the message are dropped, as some chat templates do."""
        ids = list(self._opening_ids)
        message = self._lead + text.strip() + self._trail
        if self.piecewise:
            for piece in _CUT.split(message):
                ids.extend(self._piece(piece))
        else:
            ids.extend(self._tokenise(message))
        ids.extend(self._closing_ids)
        return ids

    def encode_around(self, head: str, blocks: Sequence[str], tail: str) -> list[int]:
        """The ids of `encode(head + blocks + tail)`, at the cost of a look-up for each block that is known.

        A block is a line feed and text that neither begins nor ends with a blank, as a pair of the history is.
        """
        parts = self._parts_around(head, blocks, tail)
        if parts is None:
            return self.encode("".join((head, *blocks, tail)))
        ids = list(self._opening_ids)
        for part in parts:
            ids.extend(part)
        ids.extend(self._closing_ids)
        return ids

    def count_around(self, head: str, blocks: Sequence[str], tail: str) -> int:
        """How many ids `encode_around` gives."""
        parts = self._parts_around(head, blocks, tail)
        if parts is None:
            return len(self.encode("".join((head, *blocks, tail))))
        return len(self._opening_ids) + sum(map(len, parts)) + len(self._closing_ids)

    def count_block(self, block: str) -> int:
        """How many tokens a block adds to a prompt."""
        return sum(map(len, self._block(block)))

    def _parts_around(self, head: str, blocks: Sequence[str], tail: str) -> list[array[int]] | None:
        """The ids in parts; None where they have to be found from the whole text."""
        if not self.piecewise or not blocks or not head.strip() or not _NEXT_LINE.match(tail):
            return None
        before = self._lead + head.lstrip() + "\n"
        first, *others = blocks
        if not self._ends_clean(before):
            before += first[1:] + "\n"
        else:
            others = list(blocks)
        parts = [self._piece(piece) for piece in _CUT.split(before)]
        for block in others:
            parts += self._block(block)
        after = tail[1:].rstrip() + self._trail
        parts += [self._piece(piece) for piece in _CUT.split(after)]
        return parts

    def _block(self, block: str) -> tuple[array[int], ...]:
        """The pieces of a block on lines of its own: the line feed before it belongs to what is before."""
        known = self._blocks.get(block)
        if known is None:
            known = tuple(self._piece(piece) for piece in _CUT.split(block[1:] + "\n"))
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[block] = known
        return known

    def _ends_clean(self, text: str) -> bool:
        """Whether text that ends in a line feed may be cut there before a block, also after a blank."""
        if len(text) > 1 and not text[-2].isspace():
            return True
        ending = text[-_NEAR:]
        if ending not in self._endings:
            whole = self._tokenise(ending + _SAMPLE)
            self._endings[ending] = whole == self._tokenise(ending) + self._tokenise(_SAMPLE)
        return self._endings[ending]

    def encode_markup(self, text: str) -> list[int]:
        """The ids of text that this program wrote, special tokens included. Never for environment text."""
        self._core.encode_special_tokens = False
        try:
            return self._core.encode(text, add_special_tokens=False).ids
        finally:
            self._core.encode_special_tokens = True

    def encode_output(self, text: str) -> tuple[int, ...]:
        """The ids by which a model would most likely write `text` as its whole output."""
        return tuple(self._piece(text))

    def encode_messages(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The prompt of any chat: what the chat template makes of it, up to where the model answers."""
        text: str = self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=True,
        )
        return self.encode_markup(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids as they are, special tokens included."""
        return self._core.decode(list(token_ids), skip_special_tokens=False)

    def _piece(self, piece: str) -> array[int]:
        ids = self._cache.get(piece)
        if ids is not None:
            self._cache.move_to_end(piece)
            return ids
        ids = array("I", self._tokenise(piece))
        self._cache[piece] = ids
        self._cached_characters += len(piece)
        while self._cached_characters > self._cache_limit:
            oldest, _ = self._cache.popitem(last=False)
            self._cached_characters -= len(oldest)
        return ids

    def _tokenise(self, text: str) -> list[int]:
        self.characters_tokenised += len(text)
        return self._core.encode(text, add_special_tokens=False).ids

    def _probes(self) -> list[str]:
        texts = list(_ODD_TEXTS)
        for kind in built_in_kinds().values():
            templates = read_templates(kind.prompts)
            for forms in (templates.with_history, templates.without_history):
                texts += [template.text for template in forms.values()]
        added = [token.content for token in self._tokenizer.added_tokens_decoder.values()]
        return [*texts, "x\n" + "\n".join(added) + "\nx", "x".join(f"\n{token} \n" for token in added)]

    def _prove_equal_to_chat_template(self) -> None:
        special = _special_pattern(self._tokenizer)
        for text in self._probes():
            if special.search(text):
                continue  # here the two differ on purpose
            expected = self.encode_markup(_apply(self._tokenizer, text.strip()))
            if self.encode(text) != expected:
                raise ConfigError(
                    f"{self._tokenizer.name_or_path}: the chat template joins its own text and the user message"
                    f" in a way that prompts cannot be built for (at {text[:40]!r}); use another chat template"
                )

    def _pieces_equal_whole(self) -> bool:
        for text in self._probes():
            message = self._lead + text.strip() + self._trail
            pieces = [token for piece in _CUT.split(message) for token in self._tokenise(piece)]
            if pieces != self._tokenise(message):
                return False
        return True


def open_encoder(model: Path) -> PromptEncoder:
    """The encoder of a model's folder."""
    from transformers import AutoTokenizer

    if not (model / "tokenizer.json").is_file():
        raise ConfigError(f"{model} has no tokenizer.json: copy the model's tokenizer files there")
    return PromptEncoder(AutoTokenizer.from_pretrained(str(model)))


def _private_copy(tokenizer: PreTrainedTokenizerFast) -> Tokenizer:
    # Whether special tokens are read as plain text is a switch on the tokenizer object, and transformers leaves
    # it as the last caller wanted it. A copy keeps others from changing our prompts, and us theirs.
    from tokenizers import Tokenizer

    core = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    core.encode_special_tokens = True
    core.no_truncation()
    core.no_padding()
    return core


def _apply(tokenizer: PreTrainedTokenizerFast, text: str) -> str:
    messages = [{"role": "user", "content": text}]
    prompt: str = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=True
    )
    return prompt


def _around_user_text(tokenizer: PreTrainedTokenizerFast) -> tuple[str, str]:
    """What the chat template puts before and after the user message, proven not to depend on it."""
    if not tokenizer.chat_template:
        raise ConfigError(
            f"{tokenizer.name_or_path}: the tokenizer has no chat template; use an instruct model"
        )
    around = _apply(tokenizer, _SENTINEL).split(_SENTINEL)
    if len(around) != 2:
        raise ConfigError(
            f"{tokenizer.name_or_path}: the chat template shows the user message {len(around) - 1} times,"
            " prompts need it exactly once"
        )
    prefix, suffix = around
    for text in _ODD_TEXTS:
        if _apply(tokenizer, text.strip()) != prefix + text.strip() + suffix:
            raise ConfigError(
                f"{tokenizer.name_or_path}: the chat template changes the user message (at {text[:40]!r});"
                " use a chat template that shows it as it is"
            )
    return prefix, suffix


def _special_pattern(tokenizer: PreTrainedTokenizerFast) -> re.Pattern[str]:
    tokens = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")


def _last_special_end(tokenizer: PreTrainedTokenizerFast, prefix: str) -> int:
    return max((match.end() for match in _special_pattern(tokenizer).finditer(prefix)), default=0)


def _first_special_start(tokenizer: PreTrainedTokenizerFast, suffix: str) -> int:
    match = _special_pattern(tokenizer).search(suffix)
    return match.start() if match else len(suffix)
