"""Turns a rendered user message into prompt ids, paying only for text that is new.

Counting happens after the chat template (paper, appendix "History Management"), so every turn would tokenise
the whole history again. Byte-level BPE never merges across its pre-tokeniser's boundaries, and a single
newline between two non-blank characters is such a boundary for the GPT-2, Llama-3 and Qwen families. The
text is cut there, each piece is tokenised once and its ids are kept. Cutting at longer runs of newlines would
be wrong for GPT-2. Start-up compares both ways on probe texts; a tokenizer for which they differ is used
without cutting.

Special tokens are read in what the chat template adds and nowhere else: an observation that contains
`<|im_end|>` is plain text and cannot end the message. Added tokens that are not special (Qwen3's `<think>`)
are read in our own text, since the paper's templates mention them on purpose, and not in the values that fill a
template (`foreign_text.py`). How a prompt ends is the business of `chat_template.py`.

This module does not decide what a prompt holds. An encoder serves one thread.
"""

from __future__ import annotations

import logging
import re
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.environments.registry import built_in_kinds
from actfirst.errors import ConfigError
from actfirst.models.token_text import TokenText
from actfirst.models.tokenizer import ChatTokenizer, open_tokenizer
from actfirst.policy.chat_template import ODD_TEXTS, Ending, around_user_text, conversation, special_pattern
from actfirst.policy.foreign_text import MARK, ControlTokens
from actfirst.policy.render import read_templates

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LOG = logging.getLogger(__name__)
_CUT = re.compile(r"(?<=\S\n)(?=\S)")
_NEXT_LINE = re.compile(r"\n\S")
_NEAR, _SAMPLE = 24, "[Observation 1: 'You see'"  # how a pair begins, and how much before it may matter
_MOST_BLOCKS = 50_000


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the chat template puts around a message: ids that are constants, and the text that touches the message.

    The message is tokenised together with that text; from the nearest special token outwards ids are constants.
    """

    opening: tuple[int, ...]
    lead: str
    trail: str
    closing: tuple[int, ...]


class PromptEncoder:
    """Chat template and tokenizer of one model, for requests of a single user message.

    `characters_tokenised` counts the characters that went through the tokenizer since construction.
    """

    def __init__(self, tokenizer: ChatTokenizer, *, cache_characters: int = 8_000_000) -> None:
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
        self._controls = ControlTokens(self._core)
        self._frames = {ending: self._frame(ending) for ending in Ending}
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

    def encode(self, text: str, ending: Ending = Ending.OPEN) -> list[int]:
        """The ids of the whole prompt. Blanks around the message are dropped, as some chat templates do."""
        frame = self._frames[ending]
        ids = list(frame.opening)
        message = frame.lead + text.strip() + frame.trail
        if self.piecewise:
            for piece in _CUT.split(message):
                ids.extend(self._piece(piece))
        else:
            ids.extend(self._tokenise(message))
        ids.extend(frame.closing)
        return ids

    def encode_around(
        self, head: str, blocks: Sequence[str], tail: str, ending: Ending = Ending.OPEN
    ) -> list[int]:
        """The ids of `encode(head + blocks + tail)`, at the cost of a look-up for each block that is known.

        A block is a line feed and text that neither begins nor ends with a blank, as a pair of the history is.
        """
        frame = self._frames[ending]
        parts = self._parts_around(head, blocks, tail, frame)
        if parts is None:
            return self.encode("".join((head, *blocks, tail)), ending)
        ids = list(frame.opening)
        for part in parts:
            ids.extend(part)
        ids.extend(frame.closing)
        return ids

    def count_around(self, head: str, blocks: Sequence[str], tail: str, ending: Ending = Ending.OPEN) -> int:
        """How many ids `encode_around` gives."""
        frame = self._frames[ending]
        parts = self._parts_around(head, blocks, tail, frame)
        if parts is None:
            return len(self.encode("".join((head, *blocks, tail)), ending))
        return len(frame.opening) + sum(map(len, parts)) + len(frame.closing)

    def count_block(self, block: str) -> int:
        """How many tokens a block adds to a prompt."""
        return sum(map(len, self._block(block)))

    def mark(self, text: str) -> str:
        """Text that is not ours, with its control tokens marked as plain text for `encode`."""
        return self._controls.mark(text)

    def _parts_around(
        self, head: str, blocks: Sequence[str], tail: str, frame: _Frame
    ) -> list[array[int]] | None:
        """The ids in parts; None where they have to be found from the whole text."""
        if not self.piecewise or not blocks or not head.strip() or not _NEXT_LINE.match(tail):
            return None
        before = frame.lead + head.lstrip() + "\n"
        first, *others = blocks
        if not self._ends_clean(before):
            before += first[1:] + "\n"
        else:
            others = list(blocks)
        parts = [self._piece(piece) for piece in _CUT.split(before)]
        for block in others:
            parts += self._block(block)
        after = tail[1:].rstrip() + frame.trail
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

    def texts(self) -> TokenText:
        """What each token id stands for, as a table that any thread may read."""
        return TokenText.from_tokenizer(self._core)

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
        if MARK in text:
            return self._controls.encode(text)
        return self._core.encode(text, add_special_tokens=False).ids

    def _probes(self) -> list[str]:
        texts = list(ODD_TEXTS)
        for kind in built_in_kinds().values():
            paper, growing = read_templates(kind.prompts), read_templates(kind.prompts, "growing")
            for forms in (paper.with_history, paper.without_history, growing.with_history):
                texts += [template.text for template in forms.values()]
        added = [token.content for token in self._tokenizer.added_tokens_decoder.values()]
        return [*texts, "x\n" + "\n".join(added) + "\nx", "x".join(f"\n{token} \n" for token in added)]

    def _frame(self, ending: Ending) -> _Frame:
        prefix, suffix = around_user_text(self._tokenizer, ending)
        special = special_pattern(self._tokenizer)
        opening = max((match.end() for match in special.finditer(prefix)), default=0)
        first = special.search(suffix)
        closing = first.start() if first else len(suffix)
        return _Frame(
            opening=tuple(self.encode_markup(prefix[:opening])),
            lead=prefix[opening:],
            trail=suffix[:closing],
            closing=tuple(self.encode_markup(suffix[closing:])),
        )

    def _prove_equal_to_chat_template(self) -> None:
        special = special_pattern(self._tokenizer)
        # Where special tokens occur in the text, the two differ on purpose.
        texts = [text for text in self._probes() if not special.search(text)]
        for ending in Ending:
            for text in texts:
                expected = self.encode_markup(conversation(self._tokenizer, text.strip(), ending))
                if self.encode(text, ending) != expected:
                    raise ConfigError(
                        f"{self._tokenizer.name_or_path}: the chat template joins its own text and the user message"
                        f" in a way that prompts cannot be built for (at {text[:40]!r}); use another chat template"
                    )

    def _pieces_equal_whole(self) -> bool:
        touching = {(frame.lead, frame.trail) for frame in self._frames.values()}
        for text in self._probes():
            for lead, trail in touching:
                message = lead + text.strip() + trail
                pieces = [token for piece in _CUT.split(message) for token in self._tokenise(piece)]
                if pieces != self._tokenise(message):
                    return False
        return True


def open_encoder(model: Path) -> PromptEncoder:
    """The encoder of a model's folder."""
    return PromptEncoder(open_tokenizer(model))


def _private_copy(tokenizer: ChatTokenizer) -> Tokenizer:
    # Whether special tokens are read as plain text is a switch on the tokenizer object, and transformers leaves
    # it as the last caller wanted it. A copy keeps others from changing our prompts, and us theirs.
    from tokenizers import Tokenizer

    core = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    core.encode_special_tokens = True
    core.no_truncation()
    core.no_padding()
    return core
