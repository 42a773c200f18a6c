"""The tokenizer of the models that are made here: byte-level, with one token for every word of a world.

Prompts are what a tiny model spends its time on, so everything fixed is short: each sentence of the templates is one
token, each stock phrase of the observations and each name that the world's lexicon knows ("cabinet 1"), and so is the
number of a turn with the marks around it. Reasoning and actions keep their words. Text of other worlds is spelled byte
by byte: nothing is unknown, it is only long.

No merges are learned. `ignore_merges` makes a piece that is in the vocabulary one token; the vocabulary is the
pieces of the domain's text. Single newlines between lines are never part of a longer token, so prompts can be
cut there (`actfirst.policy.tokens`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import zip_longest
from typing import TYPE_CHECKING

from actfirst.environments.lexicon import Lexicon
from actfirst.policy.parsing import ACTION, END_ACTION, END_THINK, THINK
from actfirst.policy.render import TemplateSet

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
MAX_POSITIONS = 2048

_HIGHEST_TURN = 32
_TEXTS = ("action_history", "current_observation")  # values that begin a line or a sentence of their own
_SHORT = 4  # literals such as "]." are ordinary pieces

_TURNS = (r"\[Observation \d+: '", r"\.?', Action \d+: '")
_GPT2 = (
    r"'(?:[sdmt]|ll|ve|re)",
    r" ?\p{L}+",
    r" ?\p{N}+",
    r" ?[^\s\p{L}\p{N}]+",
    r"\s+(?!\S)",
    r"\s+",
)


def train_tokenizer(
    texts: Iterable[str],
    names: Iterable[str],
    lexicon: Lexicon,
    templates: Sequence[TemplateSet],
    wholes: Iterable[str] = (),
) -> PreTrainedTokenizerFast:
    """A tokenizer whose vocabulary is the bytes, every piece of `names` and `texts` as the lexicon cuts them, and each
    of `wholes`."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces_of_text = Regex("|".join((*_TURNS, *lexicon.pieces, *_GPT2)))
    cut = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pieces_of_text, "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    phrases = sorted({*_template_sentences(templates), *lexicon.phrases, *wholes})
    marks = (THINK, END_THINK, ACTION, END_ACTION)

    def with_vocabulary(pieces: Iterable[str]) -> Tokenizer:
        vocabulary = {piece: place for place, piece in enumerate(pieces)}
        core = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
        core.pre_tokenizer = cut
        core.decoder = decoders.ByteLevel()
        core.add_special_tokens([AddedToken(mark, special=True) for mark in (END_OF_TEXT, IM_START, IM_END)])
        # As in Qwen3, these are single tokens but not special ones: decoding keeps them.
        core.add_tokens([AddedToken(text, special=False, normalized=False) for text in (*marks, *phrases)])
        return core

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces: set[str] = set()
    # Added tokens are found before text is cut; what is left between them is cut into pieces.
    finder = with_vocabulary(alphabet)
    for text in (*_always_known(), *names, *texts):
        for part in _between(finder, text, len(alphabet)):
            pieces.update(piece for piece, _ in cut.pre_tokenize_str(part))
    core = with_vocabulary([*alphabet, *sorted(pieces - set(alphabet))])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = (files(__package__) / "chat_template.jinja").read_text(encoding="utf-8")
    return tokenizer


def _between(finder: Tokenizer, text: str, first_added: int) -> Iterator[str]:
    """What `finder` reads between added tokens, which are those from `first_added` on."""
    found, end = finder.encode(text), 0
    for token, (start, after) in zip(found.ids, found.offsets):
        if token >= first_added:
            yield text[end:start]
            end = after
    yield text[end:]


def _always_known() -> list[str]:
    """What stands around every prompt, and numbers that a sample of texts might lack."""
    texts = ["user", "assistant", *(f" {number}" for number in range(_HIGHEST_TURN + 1))]
    for turn in range(_HIGHEST_TURN + 1):
        texts += [f"[Observation {turn}: '", f".', Action {turn}: '"]
    return texts


def _template_sentences(templates: Sequence[TemplateSet]) -> list[str]:
    """The fixed text of prompts, one line at a time; a space before a word stays with the word."""
    sentences: list[str] = []
    forms = (
        form for one in templates for part in (one.with_history, one.without_history) for form in part.values()
    )
    for form in forms:
        for literal, value in zip_longest(form.parts[::2], form.placeholders, fillvalue=""):
            *whole, last = literal.split("\n")
            sentences += [*whole, last if value in _TEXTS else last.rstrip(" ")]
    # How a pair of the history begins is no sentence: it is one token with its number.
    return [one for one in sentences if len(one) > _SHORT and not one.startswith("[Observation")]
